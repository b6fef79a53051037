// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_channel.h"

#include <gtest/gtest.h>

#include "tests/server/openai/answer_samples.h"

namespace slip {
namespace {

using testing::summary;

TEST(AnswerChannel, GathersInOrderAndWakes) {
  int woken = 0;
  AnswerChannel channel(1000, [&] { ++woken; });
  channel.on_tokens({{1}, "a", {}});
  channel.on_tokens({{2, 3}, "b", {}});
  const auto first = channel.take();
  EXPECT_EQ(first.part.text, "ab");
  EXPECT_EQ(first.n_tokens, 3U);
  EXPECT_FALSE(first.finished);
  EXPECT_TRUE(channel.take().empty());
  channel.on_finished(summary(StopReason::kEndToken));
  EXPECT_TRUE(channel.take().finished);
  EXPECT_EQ(woken, 3);
}

TEST(AnswerChannel, KeepsToTheBudgetOfAll) {
  MemoryBudget budget(15, 0);
  AnswerChannel one(
      1000, [] {}, MemoryBudget::Reservation(budget)),
      other(
          1000, [] {}, MemoryBudget::Reservation(budget));
  one.on_tokens({{1}, "0123456789", {}});
  other.on_tokens({{1}, "0123456789", {}});
  EXPECT_TRUE(other.take().no_memory);
  {
    const auto taken = one.take();
    EXPECT_FALSE(taken.overflowed);
    EXPECT_EQ(taken.part.text, "0123456789");
    EXPECT_EQ(budget.used(), 10U) << "what was taken is still there";
  }
  EXPECT_EQ(budget.used(), 0U);
  one.on_tokens({{1}, "0123456789", {}});
  EXPECT_FALSE(one.take().overflowed);
}

TEST(AnswerChannel, OverflowIsReportedAndKeepsNothingMore) {
  AnswerChannel channel(10, [] {});
  channel.on_tokens({{1}, "0123456789", {}});
  EXPECT_FALSE(AnswerChannel(channel.take().overflowed ? 0 : 1, [] {}).take().overflowed);
  channel.on_tokens({{1}, "0123456789", {}});
  channel.on_tokens({{2}, "x", {}});
  const auto taken = channel.take();
  EXPECT_TRUE(taken.overflowed);
  EXPECT_EQ(taken.part.text, "0123456789");
}

}  // namespace
}  // namespace slip
