// SPDX-License-Identifier: Apache-2.0
#include "cli/service/refill_past_answers.h"

#include <gtest/gtest.h>

#include "tests/distill/replay/replay_fixture.h"

namespace slip {
namespace {

using testing::TemporaryFolder;

constexpr std::int32_t kVocab = 50;
constexpr std::int64_t kNow = 1'000'000'000;

class RefillPastAnswersTest : public ::testing::Test {
 protected:
  void append(std::uint64_t tenant, const std::string& topic, const std::vector<std::int32_t>& answer,
              std::int64_t expires_us = kNow + 1, bool sampled = false) {
    ReplayRecord record = testing::make_record(++n_records_, topic, 3, static_cast<int>(answer.size()), kVocab);
    record.tenant = TenantId{tenant};
    std::copy(answer.begin(), answer.end(), record.tokens.begin() + 3);
    record.created_us = 1;
    record.expires_us = expires_us;
    record.sampled = sampled;
    replay_.append(record);
  }
  std::size_t refill() { return refill_past_answers(replay_, topics_, kVocab, kNow, past_answers_); }
  // What past answers guess after 7, 8, 9; −1: nothing.
  std::int32_t guess(std::uint64_t tenant, const std::string& topic) {
    return past_answers_.of(TenantId{tenant}, *topics_.find(topic))->longest(std::vector{7, 8, 9}, {}).token;
  }

  TemporaryFolder folder_;
  ReplayBuffer replay_{testing::options_in(folder_)};
  TopicTable topics_{{{"sql"}, {"code"}}};
  PastAnswersTable past_answers_{std::uint64_t{64} << 20U};
  std::uint64_t n_records_ = 0;
};

TEST_F(RefillPastAnswersTest, ARestartForgetsNoAnswer) {
  append(1, "sql", {7, 8, 9, 10});
  append(2, "sql", {7, 8, 9, 20});
  append(1, "code", {7, 8, 9, 30});
  EXPECT_EQ(refill(), 3U);
  EXPECT_EQ(guess(1, "sql"), 10);
  EXPECT_EQ(guess(2, "sql"), 20) << "each key has its own";
  EXPECT_EQ(guess(1, "code"), 30);
  EXPECT_LT(guess(2, "code"), 0);
}

// Three further answers are sampled to many prompts: they used to take three quarters of the 512 places.
TEST_F(RefillPastAnswersTest, SampledAnswersTakeNoPlace) {
  append(1, "sql", {7, 8, 9, 10});
  for (int i = 0; i < 512; ++i) append(1, "sql", {7, 8, 9, 20}, kNow + 1, /*sampled=*/true);
  EXPECT_EQ(refill(), 1U);
  EXPECT_EQ(guess(1, "sql"), 10);
}

TEST_F(RefillPastAnswersTest, WhatExpiredOrIsOfAnotherVocabularyIsNotGuessed) {
  append(1, "sql", {7, 8, 9, 10}, kNow);
  append(1, "sql", {7, 8, 9, kVocab});
  append(1, "a topic that is not configured any more", {7, 8, 9, 10});
  EXPECT_EQ(refill(), 0U);
  EXPECT_LT(guess(1, "sql"), 0);
}

}  // namespace
}  // namespace slip
