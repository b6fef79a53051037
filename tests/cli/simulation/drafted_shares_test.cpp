// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/drafted_shares.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace slip {
namespace {

// Rows beyond the fourth cost time, so that a planner proposes less on a full server.
Simulation planned(double drafted_share) {
  PassCosts::Terms target, draft;
  target.row_us = {{1, 10'000}, {4, 10'000}, {64, 40'000}};
  target.more_row_us = 500;
  draft.row_us = {{1, 200}, {64, 800}};
  draft.more_row_us = 10;
  Simulation simulation{PassCosts(target), PassCosts(draft), {}, {{"sql", 0.4}, {"math", 0.5}}, {}};
  for (SimulatedTopic& topic : simulation.topics) topic.drafted_share = drafted_share;
  simulation.options.k = 8;
  simulation.options.seed = 1;
  simulation.options.adaptive_k = simulation.options.stop_early = true;
  return simulation;
}

std::vector<Arrival> arrivals_of(double rate) {
  std::vector<Arrival> arrivals = poisson_arrivals(rate, 30, 64, 3);
  for (std::size_t i = 0; i < arrivals.size(); ++i) arrivals[i].topic = static_cast<std::int32_t>(i % 2);
  return arrivals;
}

// Of each topic's steps after the prompt's, those with a proposal.
std::array<double, 2> shares_of(const Simulation& simulation, const std::vector<Arrival>& arrivals) {
  const LoadFigures run = simulate(simulation, arrivals);
  std::array<double, 2> drafted = {}, steps = {};
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    drafted[i % 2] += static_cast<double>(run.replies[i].drafted_steps);
    steps[i % 2] += static_cast<double>(run.replies[i].steps - 1);
  }
  return {drafted[0] / steps[0], drafted[1] / steps[1]};
}

// Bug: the recorded share had been lowered by the load, and the simulated planner lowered it again.
TEST(DraftedShares, AreThoseThatTheLoadLoweredToTheRecordedOnes) {
  const auto arrivals = arrivals_of(8);
  Simulation simulation = planned(0.7);
  const auto recorded = shares_of(simulation, arrivals);
  for (std::size_t i = 0; i < 2; ++i) simulation.topics[i].drafted_share = recorded[i];
  const auto lowered_twice = shares_of(simulation, arrivals);
  simulation.topics = fit_drafted_shares(simulation, arrivals);
  const auto fitted = shares_of(simulation, arrivals);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_LT(recorded[i], 0.6);
    EXPECT_LT(lowered_twice[i], recorded[i] - 0.05);
    EXPECT_NEAR(fitted[i], recorded[i], 0.02);
    EXPECT_NEAR(simulation.topics[i].drafted_share, 0.7, 0.1);
  }
}

TEST(DraftedShares, StayAsRecordedWhereNothingLoweredThem) {
  const auto arrivals = arrivals_of(0.5);
  const auto fitted = fit_drafted_shares(planned(0.3), arrivals);
  for (const SimulatedTopic& topic : fitted) EXPECT_NEAR(topic.drafted_share, 0.3, 0.05);
  for (const SimulatedTopic& topic : fit_drafted_shares(planned(0), arrivals)) EXPECT_EQ(topic.drafted_share, 0);
}

// More steps with proposals were recorded than this load can have.
TEST(DraftedShares, AreAtMostOne) {
  for (const SimulatedTopic& topic : fit_drafted_shares(planned(0.95), arrivals_of(20))) {
    EXPECT_EQ(topic.drafted_share, 1) << topic.name;
  }
}

}  // namespace
}  // namespace slip
