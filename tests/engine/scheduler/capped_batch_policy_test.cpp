// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/capped_batch_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slip {
namespace {

// A pass over 1 to 4 rows takes 10 ms, each row more adds 1 ms.
StepCurve curve() {
  StepCurve curve;
  for (std::int32_t row = 0; row < StepCurve::kRows; ++row)
    curve.us[static_cast<std::size_t>(row)] = 10'000 + 1'000.0 * std::max(0, row - 3);
  curve.more_row_us = 1'000;
  return curve;
}

// A sequence that has decoded for 100 ms; `tpot_us` 0: without a target.
DeadlineLoad decoding(std::int64_t tpot_us, std::int32_t n_done = 10) {
  return {.slo = {.tpot_us = tpot_us}, .since_us = 100'000, .n_done = n_done};
}

std::int32_t cap_of(std::vector<DeadlineLoad> loads, std::size_t n_without_target = 8) {
  loads.insert(loads.end(), n_without_target, decoding(0));
  return batch_cap(loads, curve());
}

TEST(CappedBatchPolicy, TheTightestTargetCapsTheBatch) {
  EXPECT_EQ(cap_of({decoding(12'000)}), 6) << "a step of six takes 12 ms";
  EXPECT_EQ(cap_of({decoding(11'999)}), 5);
  EXPECT_EQ(cap_of({decoding(50'000), decoding(10'000), decoding(12'000)}), 4);
  EXPECT_EQ(cap_of({decoding(50'000)}), 9) << "all of them";
  EXPECT_EQ(cap_of({decoding(12'000)}, 150), 6);
  EXPECT_EQ(cap_of({decoding(1'000'000)}, 150), 151) << "beyond the rows of the curve";
}

TEST(CappedBatchPolicy, AtLeastOneDecodesWhateverTheTarget) {
  EXPECT_EQ(cap_of({decoding(1)}), 1);
}

TEST(CappedBatchPolicy, WithoutATargetAllDecode) {
  EXPECT_EQ(cap_of({}), 8);
  EXPECT_EQ(cap_of({{.slo = {.ttft_us = 1}}}), 9) << "of the first token";
}

TEST(CappedBatchPolicy, APromptHasATargetButNoRowInTheBatch) {
  EXPECT_EQ(cap_of({{.slo = {.tpot_us = 10'000}, .n_pending = 500}}), 4);
  EXPECT_EQ(cap_of({{.slo = {.tpot_us = 50'000}, .n_pending = 500}}, 2), 2);
}

using Skipped = std::vector<std::uint8_t>;

Skipped beyond(const std::vector<DeadlineLoad>& loads, std::int32_t cap, PolicyKind kind) {
  Skipped skipped{7};  // of the step before
  mark_beyond_cap(loads, cap, kind, skipped);
  return skipped;
}

// After 100 ms a slack of 10, 20 and 30 ms.
const DeadlineLoad kSoon = decoding(10'000), kLater = decoding(12'000, 9), kLast = decoding(13'000, 9);

TEST(CappedBatchPolicy, FcfsTakesTheFirst) {
  const std::vector<DeadlineLoad> loads{decoding(0), kLast, kSoon, kLater};
  EXPECT_EQ(beyond(loads, 1, PolicyKind::kFcfs), (Skipped{0, 1, 1, 1}));
  EXPECT_EQ(beyond(loads, 3, PolicyKind::kFcfs), (Skipped{0, 0, 0, 1}));
  EXPECT_EQ(beyond(loads, 9, PolicyKind::kFcfs), (Skipped{0, 0, 0, 0}));
}

TEST(CappedBatchPolicy, SttaTakesTheNearestToMissingTheirTargets) {
  const std::vector<DeadlineLoad> loads{decoding(0), kLast, kSoon, kLater};
  EXPECT_EQ(beyond(loads, 1, PolicyKind::kStta), (Skipped{1, 1, 0, 1}));
  EXPECT_EQ(beyond(loads, 2, PolicyKind::kStta), (Skipped{1, 1, 0, 0}));
  EXPECT_EQ(beyond(loads, 3, PolicyKind::kStta), (Skipped{1, 0, 0, 0})) << "the one without a target comes last";
  EXPECT_EQ(beyond({kSoon, kSoon, kSoon}, 2, PolicyKind::kStta), (Skipped{0, 0, 1})) << "of equal ones the first";
  EXPECT_EQ(beyond({decoding(0), decoding(0)}, 1, PolicyKind::kStta), (Skipped{0, 1}));
}

TEST(CappedBatchPolicy, PromptsAndSequencesThatWaitForPagesTakeNoPlace) {
  const std::vector<DeadlineLoad> loads{{.n_pending = 500}, {.n_pending = 0}, kLast, {.n_pending = 2}, kSoon};
  EXPECT_EQ(beyond(loads, 1, PolicyKind::kFcfs), (Skipped{0, 0, 0, 0, 1}));
  EXPECT_EQ(beyond(loads, 1, PolicyKind::kStta), (Skipped{0, 0, 1, 0, 0}));
}

TEST(CappedBatchPolicy, LimitsSequencesAndNoPrompts) {
  const std::vector<DeadlineLoad> loads{decoding(0), decoding(0), decoding(0), decoding(0), decoding(10'000)};
  DeadlineLimits limits;
  make_policy(PolicyKind::kFcfs, {})->limit_step(loads, {}, curve(), 256, limits);
  EXPECT_EQ(limits.prompt_rows, 256);
  EXPECT_EQ(limits.skipped, (Skipped{0, 0, 0, 0, 1}));
  make_policy(PolicyKind::kStta, {})->limit_step(loads, {}, curve(), 256, limits);
  EXPECT_EQ(limits.skipped, (Skipped{0, 0, 0, 1, 0}));
  make_policy(PolicyKind::kStta, {})->limit_step({}, {}, curve(), 256, limits);
  EXPECT_EQ(limits.prompt_rows, 256);
  EXPECT_TRUE(limits.skipped.empty());
}

TEST(CappedBatchPolicy, OneStepIn32TriesOneSequenceMore) {
  const std::vector<DeadlineLoad> loads(6, decoding(10'000));
  const auto policy = make_policy(PolicyKind::kFcfs, {});
  for (int step = 1; step <= 64; ++step) {
    DeadlineLimits limits;
    policy->limit_step(loads, {}, curve(), 256, limits);
    EXPECT_EQ(limits.skipped, step % 32 == 0 ? (Skipped{0, 0, 0, 0, 0, 1}) : (Skipped{0, 0, 0, 0, 1, 1})) << step;
  }
}

TEST(CappedBatchPolicy, ProposesNothing) {
  DraftOutlook drafted{.most = 8, .alpha = 0.9}, guessed{};
  guessed.guesses = {5, 0.9, 0.9};
  for (const PolicyKind kind : {PolicyKind::kFcfs, PolicyKind::kStta}) {
    const auto policy = make_policy(kind, {.tree_width = 2, .stop_early = true});
    EXPECT_FALSE(policy->speculates());
    std::vector<DraftOrder> orders(7);
    policy->choose(std::vector{drafted, guessed}, 0, curve(), orders);
    ASSERT_EQ(orders.size(), 2U);
    for (const DraftOrder& order : orders) EXPECT_EQ(order.most, 0);
    std::vector<ProposedNode> nodes{{0, 0, 0.9}};
    policy->select(nodes, 2, 99);
    EXPECT_TRUE(nodes.empty());
  }
  for (const PolicyKind kind : {PolicyKind::kGoodput, PolicyKind::kAdaServe})
    EXPECT_TRUE(make_policy(kind, {})->speculates());
}

}  // namespace
}  // namespace slip
