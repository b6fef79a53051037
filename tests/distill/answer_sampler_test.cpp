// SPDX-License-Identifier: Apache-2.0
#include "distill/answer_sampler.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/distill/sample_records.h"

namespace slip {
namespace {

using testing::make_record;

constexpr RouteTag kRoute{TopicId{1}, DraftId{1}, TopicSource::kNone};

ReplayRecord record_of(std::uint64_t id, int prompt = 5, int answer = 20) {
  ReplayRecord record = make_record(id, "sql", prompt, answer);
  record.name = NameHash{100 + id};
  record.created_us = static_cast<std::int64_t>(1000 * id);
  return record;
}

TEST(AnswerSampler, AsksForTheClientsPromptOnItsBehalf) {
  AnswerSampler sampler;
  const ReplayRecord record = record_of(3);
  sampler.add(record, 1);
  const Request request = sampler.next(kRoute, 5);
  ASSERT_TRUE(request.is_background());
  EXPECT_EQ(request.prompt, std::vector<std::int32_t>(record.tokens.begin(), record.tokens.begin() + 5));
  EXPECT_EQ(request.max_tokens, 20);
  EXPECT_EQ(request.tenant, record.tenant);
  EXPECT_EQ(request.source->call, record.request);
  EXPECT_EQ(request.source->name, record.name);
  EXPECT_EQ(request.source->group, record.group);
  EXPECT_EQ(request.source->created_us, record.created_us);
  EXPECT_GT(request.source->asked_us, 0);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_FALSE(request.sampling.processes_logits());
  EXPECT_EQ(request.k, 0);
  EXPECT_TRUE(request.learn);
  EXPECT_TRUE(sampler.empty());
  EXPECT_EQ(sampler.bytes(), 0U);
}

TEST(AnswerSampler, EveryRequestHasItsOwnIdAndSeed) {
  AnswerSampler sampler;
  sampler.add(record_of(1), 2);
  const Request one = sampler.next(kRoute, 0), other = sampler.next(kRoute, 1);
  EXPECT_NE(one.id, other.id);
  EXPECT_NE(one.sampling.seed, other.sampling.seed);
  EXPECT_GE(one.id.value, std::uint64_t{1} << 63);
}

TEST(AnswerSampler, TakesPromptsInTurnTheNewestFirst) {
  AnswerSampler sampler;
  for (std::uint64_t id = 1; id <= 3; ++id) sampler.add(record_of(id), 2);
  std::vector<std::uint64_t> order;
  for (std::uint64_t n = 0; !sampler.empty(); ++n) order.push_back(sampler.next(kRoute, n).source->call.value);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 2, 1, 3, 2, 1}));
}

TEST(AnswerSampler, BoundsTheLengthOfAnswers) {
  AnswerSampler sampler;
  sampler.add(record_of(1, 5, 2), 1);
  EXPECT_EQ(sampler.next(kRoute, 0).max_tokens, 16);
  sampler.add(record_of(1, 5, 1000), 1);
  EXPECT_EQ(sampler.next(kRoute, 1).max_tokens, 256);
}

TEST(AnswerSampler, KeepsABoundedNumberOfPromptsAndTokens) {
  AnswerSampler sampler;
  for (std::uint64_t id = 1; id <= 1000; ++id) sampler.add(record_of(id), 1);
  std::size_t n = 0;
  for (; !sampler.empty(); ++n) EXPECT_GT(sampler.next(kRoute, n).source->call.value, 744U);
  EXPECT_EQ(n, 256U);
  for (std::uint64_t id = 1; id <= 20; ++id) sampler.add(record_of(id, 10'000), 1);
  EXPECT_LE(sampler.bytes(), 65'536U * 4 + 1024);
}

TEST(AnswerSampler, AsksForNoneWhereNoneIsWanted) {
  AnswerSampler sampler;
  sampler.add(record_of(1), 0);
  EXPECT_TRUE(sampler.empty());
}

TEST(AnswerSampler, ForgetsWhatIsPurged) {
  AnswerSampler sampler;
  for (std::uint64_t id = 1; id <= 6; ++id) sampler.add(record_of(id), 1);
  sampler.forget({.calls = {RequestId{6}}});
  sampler.forget({.name = NameHash{105}});
  sampler.forget({.tenant = TenantId{4 * 7}});
  sampler.forget({.before_us = 2000});
  std::vector<std::uint64_t> left;
  for (std::uint64_t n = 0; !sampler.empty(); ++n) left.push_back(sampler.next(kRoute, n).source->call.value);
  EXPECT_EQ(left, (std::vector<std::uint64_t>{3, 2}));
}

}  // namespace
}  // namespace slip
