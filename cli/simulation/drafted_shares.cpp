// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/drafted_shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace slip {
namespace {

constexpr int kRounds = 6;
constexpr double kNear = 0.01;

// Of each topic's decoding steps, the share with a proposal.
std::vector<double> simulated_shares(const Simulation& simulation, const std::vector<Arrival>& arrivals) {
  std::vector<std::int64_t> drafted(simulation.topics.size(), 0), decoding(simulation.topics.size(), 0);
  const LoadFigures run = simulate(simulation, arrivals);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const auto topic = static_cast<std::size_t>(arrivals[i].topic);
    drafted[topic] += run.replies[i].drafted_steps;
    decoding[topic] += std::max<std::int64_t>(0, run.replies[i].steps - 1);  // the first is the prompt's
  }
  std::vector<double> shares;
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    shares.push_back(static_cast<double>(drafted[i]) / static_cast<double>(std::max<std::int64_t>(1, decoding[i])));
  }
  return shares;
}

}  // namespace

std::vector<SimulatedTopic> fit_drafted_shares(Simulation simulation, const std::vector<Arrival>& arrivals) {
  const std::vector<SimulatedTopic> recorded = simulation.topics;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> simulated = simulated_shares(simulation, arrivals);
    bool near = true;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      double& share = simulation.topics[i].drafted_share;
      const double before = share, wanted = recorded[i].drafted_share;
      if (std::abs(simulated[i] - wanted) <= kNear) continue;
      share = simulated[i] > 0 ? std::min(1.0, before * wanted / simulated[i]) : 1;
      near = near && share == before;
    }
    if (near) break;
  }
  return simulation.topics;
}

}  // namespace slip
