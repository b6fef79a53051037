// SPDX-License-Identifier: Apache-2.0
#include "engine/speculate/observe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/speculate/raw_logits_checksum.h"

namespace slip {
namespace {

// Four logits with probabilities 1/8, 1/2, 1/8, 1/4.
const std::vector<float> kLogits{0, 2 * std::log(2.0F), 0, std::log(2.0F)};

TEST(ObserveRow, KeepsTheLargestAndTheLogOfTheRest) {
  const TopK top = observe_row(kLogits, 3);
  EXPECT_EQ(top.ids, (std::vector<std::int32_t>{1, 3, 0}));  // of the equal ones the lower id
  ASSERT_EQ(top.logprobs.size(), 3U);
  EXPECT_NEAR(top.logprobs[0], std::log(0.5), 1e-6);
  EXPECT_NEAR(top.logprobs[1], std::log(0.25), 1e-6);
  EXPECT_NEAR(top.logprobs[2], std::log(0.125), 1e-6);
  EXPECT_NEAR(top.log_tail, std::log(0.125), 1e-5);
}

TEST(ObserveRow, NothingIsLeftOfAVocabularyKeptWhole) {
  EXPECT_EQ(observe_row(kLogits, 4).log_tail, -INFINITY);
  EXPECT_EQ(observe_row(kLogits, 32).ids.size(), 4U);
}

struct Verified {
  Proposal proposal;
  Verdict verdict;
  Observation observation;
};

// A chain of three, of which two are accepted.
Verified observe_chain(const std::vector<std::int32_t>& committed) {
  Verified seen;
  seen.proposal.tokens = {1, 3, 0};
  seen.proposal.parents = {-1, 0, 1};
  seen.proposal.path_logprob = {std::log(0.5F), std::log(0.25F), std::log(0.025F)};
  seen.verdict = {.accepted = {0, 1}, .added_token = 2, .rejected_one = true};
  observe_verification(
      seen.proposal, seen.verdict, committed, [](std::int32_t) { return observe_row(kLogits, 2); }, seen.observation);
  return seen;
}

TEST(ObserveVerification, HasARowAfterTheRootAndAfterEachNode) {
  const Observation seen = observe_chain({1, 3, 2}).observation;
  EXPECT_EQ(seen.proposed, (std::vector<std::int32_t>{1, 3, 0}));
  EXPECT_EQ(seen.accepted, (std::vector<std::int32_t>{0, 1}));
  ASSERT_EQ(seen.rows.size(), 4U);
  EXPECT_TRUE(seen.rows[0].on_accepted_path);
  EXPECT_TRUE(seen.rows[2].on_accepted_path);
  EXPECT_FALSE(seen.rows[3].on_accepted_path);
  ASSERT_EQ(seen.q.size(), 3U);
  EXPECT_NEAR(seen.q[1], 0.5, 1e-6);
  EXPECT_NEAR(seen.q[2], 0.1, 1e-6);
}

TEST(ObserveVerification, LeavesOutWhatLiesBeyondTheAnswersEnd) {
  const Observation seen = observe_chain({1}).observation;
  EXPECT_EQ(seen.proposed, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(seen.accepted, (std::vector<std::int32_t>{0}));
  ASSERT_EQ(seen.rows.size(), 2U);
  EXPECT_TRUE(seen.rows[0].on_accepted_path);
  EXPECT_FALSE(seen.rows[1].on_accepted_path);  // what would follow the end
}

TEST(RawLogitsChecksum, DependsOnEveryBitAndOnOrder) {
  std::vector<float> other = kLogits;
  other[2] = std::nextafter(other[2], 1.0F);
  const auto chain = [](const std::vector<float>& a, const std::vector<float>& b) {
    return raw_logits_checksum(b, raw_logits_checksum(a, 0));
  };
  EXPECT_EQ(chain(kLogits, other), chain(kLogits, other));
  EXPECT_NE(chain(kLogits, other), chain(other, kLogits));
  EXPECT_NE(raw_logits_checksum(kLogits, 0), raw_logits_checksum(other, 0));
}

}  // namespace
}  // namespace slip
