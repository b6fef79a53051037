// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/record_codec.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

#include "tests/distill/sample_records.h"

namespace slip {
namespace {

using testing::make_record;
using testing::number_at;

ReplayRecord round_trip(const ReplayRecord& record) {
  auto decoded = decode_record(encode_record(record, 1));
  EXPECT_TRUE(decoded.has_value());
  return decoded.value_or(ReplayRecord{});
}

TEST(RecordCodec, GivesBackEveryField) {
  ReplayRecord record = make_record(11, "sql");
  record.sampling = {.temperature = 0.7F, .top_p = 0.9F, .top_k = 40, .min_p = 0.05F, .seed = 99};
  record.seed = 99;
  record.choice = 3;
  record.rule = AcceptanceRule::kCoupled;
  record.sequence = 17;
  record.created_us = 1'700'000'000'000'000;
  record.expires_us = record.created_us + 5;
  const ReplayRecord back = round_trip(record);
  EXPECT_EQ(back.request, record.request);
  EXPECT_EQ(back.tenant, record.tenant);
  EXPECT_EQ(back.topic, record.topic);
  EXPECT_EQ(back.group, record.group);
  EXPECT_EQ(back.created_us, record.created_us);
  EXPECT_EQ(back.expires_us, record.expires_us);
  EXPECT_EQ(back.sequence, record.sequence);
  EXPECT_EQ(back.sampling.temperature, record.sampling.temperature);
  EXPECT_EQ(back.sampling.top_p, record.sampling.top_p);
  EXPECT_EQ(back.sampling.top_k, record.sampling.top_k);
  EXPECT_EQ(back.sampling.min_p, record.sampling.min_p);
  EXPECT_EQ(back.sampling.seed, record.sampling.seed);
  EXPECT_EQ(back.choice, 3U);
  EXPECT_EQ(back.rule, record.rule);
  EXPECT_EQ(back.draft, record.draft);
  EXPECT_EQ(back.draft_version, record.draft_version);
  EXPECT_EQ(back.accepted, record.accepted);
  EXPECT_EQ(back.first_rejections, record.first_rejections);
  EXPECT_EQ(back.steps, record.steps);
  EXPECT_EQ(back.tokens, record.tokens);
  EXPECT_EQ(back.prompt_tokens, record.prompt_tokens);
  ASSERT_EQ(back.target.size(), record.target.size());
  EXPECT_EQ(back.processed_logits, record.processed_logits);
  EXPECT_FALSE(back.sampled);
  record.sampled = true;
  EXPECT_TRUE(round_trip(record).sampled);
}

TEST(RecordCodec, ReadsFormat3WhichHasNoName) {
  ReplayRecord record = make_record(11, "sql");
  record.name = name_hash("customer-42");
  const auto now = decode_record(encode_record(record, 1));
  const auto before = decode_record(testing::encode_as_format_3(record, 1));
  ASSERT_TRUE(now.has_value() && before.has_value());
  EXPECT_EQ(now->name, record.name);
  EXPECT_EQ(before->name, NameHash{});
  EXPECT_EQ(before->tokens, record.tokens);
  EXPECT_EQ(before->draft, record.draft);
}

TEST(RecordCodec, ReadsFormat1) {
  ReplayRecord record = make_record(11, "sql");
  record.sampling = {.temperature = 0.7F, .top_p = 0.9F, .top_k = 40, .seed = 99};
  record.seed = 99;
  const auto back = decode_record(testing::encode_as_format_1(record, 1));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->sampling.top_k, 40);
  EXPECT_EQ(back->sampling.seed, 99U);
  EXPECT_EQ(back->sampling.min_p, 0);
  EXPECT_EQ(back->choice, 0U);
  EXPECT_EQ(back->draft, record.draft);
  EXPECT_EQ(back->tokens, record.tokens);
  EXPECT_EQ(back->target.size(), record.target.size());
}

TEST(RecordCodec, LogProbabilitiesAreRightToHalfAStep) {
  ReplayRecord record = make_record(1, "sql", 2, 1);
  record.target[0].ids = {4, 5, 6, 7};
  record.target[0].logprobs = {-0.0001F, -1.5F, -12.34567F, -80.0F};
  record.target[0].log_tail = -3.25F;
  const TopK back = round_trip(record).target[0];
  EXPECT_EQ(back.ids, record.target[0].ids);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(back.logprobs[i], record.target[0].logprobs[i], 0.5 / 2048);
  EXPECT_LT(back.logprobs[3], -31.9F);  // beyond the grid: negligible, but a number
  EXPECT_TRUE(std::isfinite(back.logprobs[3]));
  EXPECT_NEAR(back.log_tail, -3.25F, 0.5 / 2048);
}

TEST(RecordCodec, NothingLeftInTheTailStaysNothing) {
  ReplayRecord record = make_record(1, "sql", 2, 1);
  record.target[0].log_tail = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(round_trip(record).target[0].log_tail));
}

// About 194 bytes a token at K = 32, whatever the vocabulary (docs/drafts.md, "Learning").
TEST(RecordCodec, ATokenTakesAbout194Bytes) {
  const auto size_of = [](int answer) {
    ReplayRecord record = make_record(1, "sql", 4, answer, 100'000);
    for (TopK& top : record.target) top = testing::falling_top_k(top.ids[0], 100'000, 32);
    return encode_record(record, 1).size();
  };
  EXPECT_LE(size_of(200) - size_of(100), 100 * 200U);
  EXPECT_GE(size_of(200) - size_of(100), 100 * 190U);
}

TEST(RecordCodec, ATombstoneIsAFrameButNoRecord) {
  const auto frame = encode_tombstone({.calls = {RequestId{5}}}, 9, 123);
  const auto header = parse_frame(frame);
  ASSERT_TRUE(header.has_value());
  EXPECT_TRUE(header->tombstone());
  EXPECT_EQ(header->request, RequestId{5});
  EXPECT_FALSE(decode_record(frame).has_value());
}

TEST(RecordCodec, ATombstoneKeepsItsScope) {
  for (int conditions = 1; conditions < 8; ++conditions) {
    PurgeScope scope;
    if ((conditions & 1) != 0) scope.calls = {RequestId{5}};
    if ((conditions & 2) != 0) scope.tenant = TenantId{0};  // also where no keys are
    if ((conditions & 4) != 0) scope.before_us = 1'000;
    const PurgeScope read = parse_frame(encode_tombstone(scope, 9, 123))->scope();
    EXPECT_EQ(read.calls, scope.calls);
    EXPECT_EQ(read.tenant, scope.tenant);
    EXPECT_EQ(read.before_us, scope.before_us);
    EXPECT_EQ(read.name, NameHash{});
  }
  const PurgeScope named = parse_frame(encode_tombstone({.name = name_hash("customer-42")}, 9, 123))->scope();
  EXPECT_TRUE(named.contains(RequestId{5}, name_hash("customer-42"), TenantId{3}, 0));
  EXPECT_FALSE(named.contains(RequestId{5}, name_hash("customer-43"), TenantId{3}, 0));
  EXPECT_FALSE(named.contains(RequestId{5}, NameHash{}, TenantId{3}, 0)) << "a call without a name";
  const PurgeScope none = parse_frame(encode_tombstone({}, 9, 123))->scope();
  EXPECT_FALSE(none.contains(RequestId{5}, name_hash("mine"), TenantId{0}, 0))
      << "damage must not become a purge of everything";
}

TEST(RecordCodec, EveryTruncationIsRefused) {
  const auto frame = encode_record(make_record(3, "sql"), 1);
  for (std::size_t n = 0; n < frame.size(); ++n) {
    EXPECT_FALSE(parse_frame(std::span(frame).first(n)).has_value());
    EXPECT_FALSE(decode_record(std::span(frame).first(n)).has_value());
  }
}

TEST(RecordCodec, NegativeEveryFlippedByteIsRefused) {
  auto frame = encode_record(make_record(3, "sql"), 1);
  for (std::size_t i = 0; i < frame.size(); ++i) {
    const std::byte before = frame[i];
    frame[i] = before ^ static_cast<std::byte>(1 + number_at(i, 0, 255));
    EXPECT_FALSE(decode_record(frame).has_value()) << "byte " << i;
    frame[i] = before;
  }
  EXPECT_TRUE(decode_record(frame).has_value());
}

// A CRC is no signature: bytes with a valid CRC are still untrusted.
TEST(RecordCodec, HostilePayloadsUnderAGoodCrcNeverCrash) {
  const ReplayRecord record = make_record(3, "sql");
  const std::size_t size = encode_record(record, 1).size();
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    ReplayRecord hostile = record;
    // Through the encoder, so that the CRC is right, with fields no engine would write.
    const auto at = static_cast<std::size_t>(number_at(seed, 0, static_cast<std::int32_t>(hostile.tokens.size())));
    hostile.tokens[at] = number_at(seed, 1, 2) == 0 ? -1 : number_at(seed, 2, 1 << 30);
    if (number_at(seed, 3, 2) == 0) hostile.prompt_tokens = number_at(seed, 4, 30) - 8;
    if (number_at(seed, 5, 4) == 0) hostile.target.resize(static_cast<std::size_t>(number_at(seed, 6, 12)));
    if (number_at(seed, 7, 4) == 0) hostile.sampling.temperature = std::nanf("");
    const auto decoded = decode_record(encode_record(hostile, 1));
    if (!decoded) {
      ++refused;
      continue;
    }
    ASSERT_EQ(decoded->tokens.size() - static_cast<std::size_t>(decoded->prompt_tokens), decoded->target.size());
    ASSERT_GE(*std::min_element(decoded->tokens.begin(), decoded->tokens.end()), 0);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
  EXPECT_GT(size, 0U);
}

TEST(RecordCodec, RepeatedIdsInADistributionAreRefused) {
  ReplayRecord record = make_record(3, "sql");
  record.target[2].ids[1] = record.target[2].ids[0];
  EXPECT_FALSE(decode_record(encode_record(record, 1)).has_value());
}

}  // namespace
}  // namespace slip
