// SPDX-License-Identifier: Apache-2.0
#include "bench/common_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/clock.h"
#include "common/error.h"

namespace slip::bench {
namespace {

using nlohmann::json;

// As bench/decode prints it: 1 to 8 rows take `pass_ms`, each further one `row_ms`; each further sequence
// `sequence_ms`, a cached token `token_ms`, and a prompt's row `row_ms`.
json measured(double pass_ms, double row_ms, double sequence_ms = 0, double token_ms = 0) {
  json steps = json::array();
  for (const int context : {128, 512}) {
    for (const int rows : {1, 8, 16, 64}) {
      const double ms = pass_ms + row_ms * std::max(0, rows - 8);
      steps.push_back(
          {{"layout", "rows"}, {"context", context}, {"rows", rows}, {"ms", ms + token_ms * (context - 128)}});
      const double cached = token_ms * (context * rows - 128);
      steps.push_back({{"layout", "sequences"},
                       {"context", context},
                       {"rows", rows},
                       {"ms", ms + sequence_ms * (rows - 1) + cached}});
    }
  }
  return {{"steps", steps}, {"prefill", {{{"tokens", 512}, {"ms", 512 * row_ms}}}}};
}

// A target whose pass is bound by memory, and a draft of a fiftieth of its time.
Simulation usual(double alpha) {
  Simulation simulation{PassCosts(measured(10, 0.1)), PassCosts(measured(0.2, 0.01)), {}, {{"all", alpha}}, {}};
  simulation.options.k = 8;
  simulation.options.seed = 1;
  simulation.options.adaptive_k = simulation.options.stop_early = true;
  return simulation;
}
Simulation with_fixed(std::int32_t k, double alpha) {
  Simulation simulation = usual(alpha);
  simulation.options.k = k;
  simulation.options.adaptive_k = simulation.options.stop_early = false;
  return simulation;
}

double mean_e2e_ms(const Simulation& simulation, const std::vector<Arrival>& arrivals) {
  return summarize({simulate(simulation, arrivals)})["e2e_ms"]["mean"];
}

TEST(PassCosts, TimesAreThoseMeasuredAndLinesBetweenThem) {
  const PassCosts costs(measured(10, 0.1, 0.5, 0.002));
  EXPECT_NEAR(costs.us(1, 1, 128), 10'000, 1e-6);
  EXPECT_NEAR(costs.us(8, 1, 128), 10'000, 1e-6);
  EXPECT_NEAR(costs.us(12, 1, 128), 10'400, 1e-6);
  EXPECT_NEAR(costs.us(64 + 512, 1, 128), 10'000 + 100 * 56 + 100 * 512, 1e-6) << "beyond the most, as a prompt";
  EXPECT_NEAR(costs.us(8, 8, 128), 10'000 + 500 * 7, 1e-6);
  EXPECT_NEAR(costs.us(8, 8, 1128), 10'000 + 500 * 7 + 2 * 1000, 1e-6);
}

TEST(PassCosts, WhatAMeasurementLacksIsNamed) {
  const auto lack = [](const json& decode) -> std::string {
    try {
      PassCosts costs(decode);
      return "nothing";
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(lack(measured(10, 0.1)), "nothing");
  EXPECT_NE(lack(json::array()).find("`steps`"), std::string::npos);
  json one = measured(10, 0.1);
  one["prefill"] = json::array();
  EXPECT_NE(lack(one).find("a prompt"), std::string::npos);
  for (const auto& [layout, what] : {std::pair{"rows", "layout `rows`"}, {"sequences", "layout `sequences`"}}) {
    one = measured(10, 0.1);
    std::erase_if(one["steps"].get_ref<json::array_t&>(), [&](const json& step) { return step["layout"] == layout; });
    EXPECT_NE(lack(one).find(what), std::string::npos) << lack(one);
  }
  one = measured(10, 0.1);
  std::erase_if(one["steps"].get_ref<json::array_t&>(), [](const json& step) { return step["context"] == 512; });
  EXPECT_NE(lack(one).find("two contexts"), std::string::npos) << lack(one);
}

// 100 rows of a prompt, then 32 tokens of 10 ms; the context costs nothing.
TEST(Simulate, OneRequestTakesTheTimeOfItsPasses) {
  Simulation simulation = with_fixed(0, 0);
  simulation.other = {100, 1000};
  const LoadRun run = simulate(simulation, {{0.5, 32}});
  const double first_ms = 0.5 + 0.1 + 10 + 0.1 * 92 + 0.5;
  EXPECT_EQ(run.replies[0].status, 200);
  EXPECT_NEAR(run.replies[0].ttft_ms, first_ms, 0.01);
  EXPECT_NEAR(run.replies[0].e2e_ms, first_ms + 31 * 10.1, 0.05);
  EXPECT_EQ(run.replies[0].completion_tokens, 32);
  ASSERT_EQ(run.replies[0].gaps_ms.size(), 31U);
}

TEST(Simulate, TheDraftIsAsOftenRightAsItsAcceptanceRateSays) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 64; ++i) arrivals.push_back({0.01 * i, 128});
  for (const double alpha : {0.3, 0.6, 0.9}) {
    const json fixed = summarize({simulate(with_fixed(3, alpha), arrivals)});
    EXPECT_NEAR(fixed["alpha"].get<double>(), alpha, 0.02);
    EXPECT_EQ(fixed["completed"], 64);
  }
}

TEST(Simulate, TheSameSeedGivesTheSameAnswersAndTimes) {
  const auto arrivals = poisson_arrivals(4, 10, 64, 7);
  const json first = summarize({simulate(usual(0.6), arrivals)});
  EXPECT_EQ(summarize({simulate(usual(0.6), arrivals)}), first);
  Simulation other = usual(0.6);
  other.seed = 2;
  EXPECT_NE(summarize({simulate(other, arrivals)}), first);
  EXPECT_EQ(monotonic_source, &steady_us) << "the process's clock is back";
}

TEST(Simulate, ARequestBeyondTheQueueIsRejected) {
  Simulation simulation = usual(0.6);
  simulation.options.max_running = 1;
  simulation.options.max_waiting = 2;
  const json found = summarize({simulate(simulation, std::vector<Arrival>(8, Arrival{0, 16}))});
  EXPECT_EQ(found["completed"], 2);
  EXPECT_EQ(found["rejected"], 6);
}

// The planner against every fixed length, over loads from an empty server to a full one.
TEST(Simulate, ThePlannerIsNotSlowerThanTheBestFixedLength) {
  for (const double alpha : {0.02, 0.1, 0.5, 0.8}) {
    for (const double rate : {1.0, 6.0, 12.0}) {
      const auto arrivals = poisson_arrivals(rate, 30, 96, 3);
      double best = mean_e2e_ms(with_fixed(0, alpha), arrivals);
      for (const int k : {1, 3, 5}) best = std::min(best, mean_e2e_ms(with_fixed(k, alpha), arrivals));
      EXPECT_LE(mean_e2e_ms(usual(alpha), arrivals), 1.02 * best) << "α " << alpha << ", " << rate << " requests/s";
    }
  }
}

// A fixed length is a loss on a full server where the draft is poor: the test above can fail.
TEST(Simulate, NegativeAFixedLengthIsMuchSlowerSomewhere) {
  const auto arrivals = poisson_arrivals(12, 30, 96, 3);
  EXPECT_GT(mean_e2e_ms(with_fixed(5, 0.1), arrivals), 1.1 * mean_e2e_ms(with_fixed(0, 0.1), arrivals));
}

}  // namespace
}  // namespace slip::bench
