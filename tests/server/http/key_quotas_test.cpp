// SPDX-License-Identifier: Apache-2.0
#include "server/http/key_quotas.h"

#include <gtest/gtest.h>

#include "common/clock.h"

namespace slip {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

TEST(MinuteAllowance, FillsEvenlyUpToAMinutesWorth) {
  MinuteAllowance allowance(60);
  std::int64_t now = 1000 * kSecond;
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(allowance.wait_us(now), 0) << i;
    allowance.spend(now, 1);
  }
  EXPECT_EQ(allowance.wait_us(now), kSecond);
  EXPECT_EQ(allowance.wait_us(now + kSecond / 2), kSecond / 2);
  now += kSecond;
  EXPECT_EQ(allowance.wait_us(now), 0);
  allowance.spend(now, 1);
  EXPECT_GT(allowance.wait_us(now), 0);
  now += 3600 * kSecond;
  for (int i = 0; i < 60; ++i) allowance.spend(now, 1);
  EXPECT_GT(allowance.wait_us(now), 0) << "an hour of silence saves up no more than a minute";
}

TEST(MinuteAllowance, DebtIsWaitedOff) {
  MinuteAllowance allowance(600);
  allowance.spend(kSecond, 900);  // 600 + what a first second brings stay capped at 600
  EXPECT_EQ(allowance.wait_us(kSecond), 30 * kSecond + kSecond / 10);
  EXPECT_EQ(allowance.wait_us(32 * kSecond), 0);
}

TEST(MinuteAllowance, AClockThatStandsOrStepsBackGivesNothing) {
  MinuteAllowance allowance(1);
  allowance.spend(100 * kSecond, 1);
  EXPECT_EQ(allowance.wait_us(100 * kSecond), 60 * kSecond);
  EXPECT_EQ(allowance.wait_us(10 * kSecond), 60 * kSecond);
  EXPECT_EQ(allowance.wait_us(100 * kSecond), 60 * kSecond);
  MinuteAllowance unbounded(0);
  unbounded.spend(0, 1'000'000);
  EXPECT_EQ(unbounded.wait_us(0), 0);
}

class KeyQuotasTest : public ::testing::Test {
 protected:
  KeyQuotasTest() {
    keys_.add("key-a", {.name = "a", .limits = {.requests_in_flight = 2, .tokens_per_minute = 60}});
    keys_.add("key-b", {.name = "b"});
  }
  TenantId tenant(const char* key) const { return keys_.find(key)->tenant; }
  ApiKeys keys_;
};

TEST_F(KeyQuotasTest, PlacesComeBackWhenTheRequestGoes) {
  KeyQuotas quotas(keys_);
  {
    const auto first = quotas.enter(tenant("key-a"), kSecond), second = quotas.enter(tenant("key-a"), kSecond);
    EXPECT_TRUE(first.stay && second.stay);
    const auto third = quotas.enter(tenant("key-a"), kSecond);
    EXPECT_FALSE(third.stay);
    EXPECT_EQ(third.limit, "2 requests at a time");
    EXPECT_TRUE(quotas.enter(tenant("key-b"), kSecond).stay) << "another key is not affected";
    EXPECT_TRUE(quotas.enter({}, kSecond).stay) << "without keys there are no limits";
  }
  EXPECT_TRUE(quotas.enter(tenant("key-a"), kSecond).stay);
}

// Each of n choices paid for the prompt that they share.
TEST_F(KeyQuotasTest, APromptIsPaidOnceForAllItsChoices) {
  KeyQuotas quotas(keys_);
  RequestSummary summary;
  summary.tenant = tenant("key-a");
  summary.figures.prompt_tokens = 40;
  summary.figures.output_tokens = 4;
  for (summary.choice = 0; summary.choice < 3; ++summary.choice) quotas.on_finished(summary);  // 52 of 60
  EXPECT_TRUE(quotas.enter(tenant("key-a"), monotonic_us()).stay);
  summary.choice = 0;  // of the next prompt
  quotas.on_finished(summary);
  EXPECT_FALSE(quotas.enter(tenant("key-a"), monotonic_us()).stay);
}

TEST(MinuteAllowance, AnotherLimitForgetsNothing) {
  MinuteAllowance allowance(600);
  allowance.spend(kSecond, 600);
  allowance.set_per_minute(kSecond, 1200);
  EXPECT_EQ(allowance.wait_us(kSecond), 0) << "600 are left of 1200";
  allowance.set_per_minute(kSecond, 60);
  EXPECT_EQ(allowance.wait_us(kSecond), 541 * kSecond) << "540 more than its minute's were spent";
  allowance.set_per_minute(kSecond, 0);
  allowance.spend(kSecond, 1'000'000);
  allowance.set_per_minute(kSecond, 60);
  EXPECT_EQ(allowance.wait_us(kSecond), 0) << "what was free was not counted";
}

TEST_F(KeyQuotasTest, OtherKeysAndLimitsKeepWhatAStayingKeySpent) {
  KeyQuotas quotas(keys_);
  std::optional<KeyQuotas::Entry> of_a = quotas.enter(tenant("key-a"), kSecond);
  std::optional<KeyQuotas::Entry> of_b = quotas.enter(tenant("key-b"), kSecond);
  ApiKeys next;
  next.add("key-a", {.name = "a", .limits = {.requests_in_flight = 1}});
  next.add("key-c", {.name = "c", .limits = {.requests_in_flight = 1}});
  quotas.set_keys(next, kSecond);
  EXPECT_EQ(quotas.enter(tenant("key-a"), kSecond).limit, "1 request at a time");
  of_a.reset();
  EXPECT_TRUE(quotas.enter(tenant("key-a"), kSecond).stay);
  // A key that went and came back owes nothing for what it has under way, and gets no place for it either.
  next.add("key-b", {.name = "b", .limits = {.requests_in_flight = 1}});
  quotas.set_keys(next, kSecond);
  of_b.reset();
  const auto again = quotas.enter(tenant("key-b"), kSecond);
  EXPECT_TRUE(again.stay);
  EXPECT_FALSE(quotas.enter(tenant("key-b"), kSecond).stay);
}

TEST_F(KeyQuotasTest, AnswersArePaidWhenTheyEndAlsoForClientsThatLeft) {
  KeyQuotas quotas(keys_);
  const std::int64_t now = monotonic_us();
  RequestSummary summary;
  summary.tenant = tenant("key-a");
  summary.reason = StopReason::kCancelled;
  summary.figures.prompt_tokens = 50;
  summary.figures.output_tokens = 40;
  EXPECT_TRUE(quotas.enter(tenant("key-a"), now).stay);
  quotas.on_finished(summary);
  const auto entry = quotas.enter(tenant("key-a"), now);  // as if no time had passed since the answer ended
  EXPECT_FALSE(entry.stay);
  EXPECT_EQ(entry.limit, "60 tokens a minute");
  EXPECT_GE(entry.retry_after_s, 30);
  EXPECT_LE(entry.retry_after_s, 32);
  summary.tenant = {};
  quotas.on_finished(summary);
}

}  // namespace
}  // namespace slip
