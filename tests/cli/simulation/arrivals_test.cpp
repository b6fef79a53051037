// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip {
namespace {

constexpr const char* kHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

class TraceTest : public ::testing::Test {
 protected:
  std::vector<Arrival> read(const std::string& rows, TraceOptions options = {}) const {
    return trace_arrivals(folder_.write("trace.csv", kHead + rows), options);
  }
  // The message of the refusal; "none" if the trace is read.
  std::string refusal(const std::string& rows) const {
    try {
      read(rows);
      return "none";
    } catch (const Error& error) {
      return error.message();
    }
  }
  slip::testing::TemporaryFolder folder_;
};

TEST(DrawTargets, EachHasItsShare) {
  const std::vector<SloTargets> targets{{.tpot_us = 1}, {.tpot_us = 2}, {.tpot_us = 3}};
  std::vector<Arrival> arrivals(1000), again(1000);
  draw_targets(targets, std::vector{60.0, 0.0, 40.0}, 5, arrivals);
  draw_targets(targets, std::vector{60.0, 0.0, 40.0}, 5, again);
  std::array<int, 4> counts{};
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    EXPECT_EQ(arrivals[i].slo.tpot_us, again[i].slo.tpot_us);
    ++counts[static_cast<std::size_t>(arrivals[i].slo.tpot_us)];
  }
  EXPECT_NEAR(counts[1], 600, 5 * 16) << "five standard deviations";
  EXPECT_EQ(counts[2], 0);
  EXPECT_EQ(counts[1] + counts[3], 1000);
}

TEST(PoissonArrivals, HaveTheirRate) {
  const auto arrivals = poisson_arrivals(50, 100, 32, 5);
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 5000, 5 * 71) << "five standard deviations";
  EXPECT_LT(arrivals.back().at_s, 100);
  EXPECT_EQ(arrivals.front().max_tokens, 32);
  EXPECT_EQ(arrivals.front().prompt_tokens, 0);
  EXPECT_EQ(poisson_arrivals(50, 100, 32, 5).back().at_s, arrivals.back().at_s);
  EXPECT_NE(poisson_arrivals(50, 100, 32, 6).front().at_s, arrivals.front().at_s);
}

TEST_F(TraceTest, ReadsTimesPromptsAndAnswers) {
  const auto arrivals = read(
      "2023-11-16 23:59:59.5000000,374,44\r\n"
      "2023-11-17 00:00:01.25,396,0\n");
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].at_s, 0);
  EXPECT_EQ(arrivals[0].prompt_tokens, 374);
  EXPECT_EQ(arrivals[0].max_tokens, 44);
  EXPECT_NEAR(arrivals[1].at_s, 1.75, 1e-6) << "over midnight";
  EXPECT_EQ(arrivals[1].max_tokens, 1) << "no answer is empty";
}

TEST_F(TraceTest, IsScaledCutAndOrdered) {
  const std::string rows =
      "2023-11-16 18:00:30,2000,900\n"
      "2023-11-16 18:00:10,100,10\n"
      "2023-11-16 18:02:00,100,10\n";
  const auto arrivals = read(rows, {.scale = 2, .duration_s = 30, .max_tokens = 500, .max_prompt_tokens = 1500});
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].prompt_tokens, 100) << "the earlier one comes first";
  EXPECT_NEAR(arrivals[1].at_s, 10, 1e-6);
  EXPECT_EQ(arrivals[1].prompt_tokens, 1500);
  EXPECT_EQ(arrivals[1].max_tokens, 500);
}

// Each was a load without requests, with status 0; the first line was dropped, whatever it was.
TEST_F(TraceTest, ATraceWithoutRequestsOrAHeadIsRefused) {
  const auto refusal_of = [&](const std::string& content) -> std::string {
    try {
      trace_arrivals(folder_.write("trace.csv", content), {});
      return "none";
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), "--trace");
      return error.message();
    }
  };
  const std::string row = "2023-11-16 18:00:30,374,44\n";
  EXPECT_THAT(refusal_of(kHead), ::testing::HasSubstr("trace.csv holds no requests"));
  for (const std::string& head :
       {std::string(), row, std::string("TIMESTAMP,GeneratedTokens,ContextTokens\n"), std::string(4000, '\0')}) {
    EXPECT_THAT(refusal_of(head + row), ::testing::HasSubstr("line 1 is not the head of a trace"))
        << head.substr(0, 40);
  }
  EXPECT_EQ(refusal_of("\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\r\n" + row), "none");
}

TEST_F(TraceTest, ALineThatIsNoArrivalIsNamed) {
  const std::string good = "2023-11-16 18:00:30,374,44\n";
  for (const char* bad :
       {"nonsense", "2023-11-16 18:00:30,374", "2023-11-16 18:00:30,374,44,5", "2023-11-16 18:00:30,-1,44",
        "2023-11-16 18:00:30,374,99999999999", "2023-13-16 18:00:30,1,1", "2023-02-30 18:00:30,1,1",
        "2023-11-16 24:00:30,1,1", "2023-11-16 18:00:nan,1,1", "2023-11-16T18:00:30,1,1", ",,"}) {
    EXPECT_THAT(refusal(good + bad), ::testing::HasSubstr("line 3 is no arrival")) << bad;
  }
  EXPECT_EQ(refusal(good + "\n" + good), "none") << "an empty line is none";
  EXPECT_THROW(trace_arrivals(folder_.path() / "absent.csv", {}), Error);
}

}  // namespace
}  // namespace slip
