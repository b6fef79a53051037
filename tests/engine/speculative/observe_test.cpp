// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/observe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/speculative/raw_logits_checksum.h"

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

// A chain of three of which two are accepted; the row's number stands in the first id.
Observation observe_chain(const std::vector<std::int32_t>& committed) {
  Proposal proposal;
  for (const std::int32_t token : {1, 1, 0}) proposal.add_to_chain(token, 0);
  const VerifyResult result{.accepted = {0, 1}, .added_token = 2, .rejected_one = true};
  Observation observation;
  observe_verification(
      proposal, result, committed,
      [](std::int32_t row) {
        return TopK{{row}, {0.0F}, 0};
      },
      observation);
  return observation;
}

std::vector<std::int32_t> rows_of(const Observation& seen) {
  std::vector<std::int32_t> rows;
  for (const TopK& target : seen.targets) rows.push_back(target.ids[0]);
  return rows;
}

TEST(ObserveVerification, HasTheRowThatChoseEachToken) {
  const Observation seen = observe_chain({1, 3, 2});
  EXPECT_EQ(seen.committed, (std::vector<std::int32_t>{1, 3, 2}));
  EXPECT_EQ(rows_of(seen), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(seen.n_accepted, 2);
  EXPECT_TRUE(seen.rejected);
}

TEST(ObserveVerification, LeavesOutWhatLiesBeyondTheAnswersEnd) {
  const Observation seen = observe_chain({1});
  EXPECT_EQ(rows_of(seen), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(seen.n_accepted, 1);
  EXPECT_FALSE(seen.rejected);
}

// Each row costs a search through the vocabulary, so unused ones must not be observed.
TEST(ObserveVerification, AsksForNoRowOffTheCommittedPath) {
  std::vector<std::int32_t> asked;
  Proposal proposal;
  proposal.add_to_chain(4, 0);
  proposal.add_sibling(0, 3);
  const VerifyResult result{.accepted = {1}, .added_token = 2, .rejected_one = false};
  Observation observation;
  const std::vector<std::int32_t> committed{3, 2};
  observe_verification(
      proposal, result, committed,
      [&](std::int32_t row) {
        asked.push_back(row);
        return TopK{};
      },
      observation);
  EXPECT_EQ(asked, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(observation.n_accepted, 0);
  EXPECT_TRUE(observation.rejected);  // a sibling was accepted, so the first choice was not
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
