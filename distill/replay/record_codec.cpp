// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/record_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/byte_codec.h"
#include "common/crc32c.h"
#include "common/error.h"
#include "common/topic_name.h"

namespace slip {

namespace {

constexpr float kStepsPerNat = 2048;
constexpr std::uint16_t kLastStep = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t kCrcBegin = 8;  // the CRC covers neither the magic nor itself
constexpr std::size_t kPayloadSizeOffset = 8;

std::uint16_t encode_logprob(float logprob) {
  const float steps = std::round(-logprob * kStepsPerNat);
  if (!(steps < static_cast<float>(kLastStep))) return kLastStep;  // −inf and NaN too
  return steps > 0 ? static_cast<std::uint16_t>(steps) : std::uint16_t{0};
}

// The last step decodes to −32 nats: a negligible p. For a tail it means an empty tail.
float decode_logprob(std::uint16_t steps) {
  return -static_cast<float>(steps) / kStepsPerNat;
}

void write_top_k(ByteWriter& out, const TopK& top) {
  const std::size_t n = std::min<std::size_t>({top.ids.size(), top.logprobs.size(), 255});
  out.number(static_cast<std::uint8_t>(n));
  for (std::size_t i = 0; i < n; ++i) out.number(static_cast<std::uint32_t>(top.ids[i]));
  for (std::size_t i = 0; i < n; ++i) out.number(encode_logprob(top.logprobs[i]));
  out.number(encode_logprob(top.log_tail));
}

std::int32_t read_token(ByteReader& in) {
  const auto token = in.number<std::uint32_t>();
  if (token > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max())) in.fail();
  return static_cast<std::int32_t>(token);
}

constexpr std::uint16_t kFormatWithName = 4;
constexpr std::size_t kLeastTopKBytes = 3;  // count and tail

TopK read_top_k(ByteReader& in) {
  TopK top;
  const std::size_t n = in.number<std::uint8_t>();
  top.ids.reserve(n);
  top.logprobs.reserve(n);
  for (std::size_t i = 0; i < n && in.ok(); ++i) top.ids.push_back(read_token(in));
  for (std::size_t i = 0; i < n && in.ok(); ++i) top.logprobs.push_back(decode_logprob(in.number<std::uint16_t>()));
  const auto tail = in.number<std::uint16_t>();
  top.log_tail = tail == kLastStep ? -std::numeric_limits<float>::infinity() : decode_logprob(tail);
  auto sorted = top.ids;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) in.fail();
  return top;
}

void write_tokens(ByteWriter& out, const std::vector<std::int32_t>& tokens) {
  out.number(static_cast<std::uint32_t>(tokens.size()));
  for (const std::int32_t token : tokens) out.number(static_cast<std::uint32_t>(token));
}

std::vector<std::int32_t> read_tokens(ByteReader& in) {
  std::vector<std::int32_t> tokens(in.count(sizeof(std::uint32_t)));
  for (std::int32_t& token : tokens) token = read_token(in);
  return tokens;
}

void write_served(ByteWriter& out, const ReplayRecord& record) {
  out.real(record.sampling.temperature);
  out.real(record.sampling.top_p);
  out.number(static_cast<std::uint32_t>(record.sampling.top_k));
  out.number(static_cast<std::uint8_t>(record.sampling.seed.has_value()));
  out.number(record.seed);
  out.real(record.sampling.min_p);
  out.number(record.choice);
  out.number(static_cast<std::uint8_t>(record.rule));
  out.short_text(std::string_view(record.draft).substr(0, 255));
  out.number(record.draft_version);
  out.number(static_cast<std::uint32_t>(record.accepted));
  out.number(static_cast<std::uint32_t>(record.first_rejections));
  out.number(static_cast<std::uint32_t>(record.steps));
}

void read_served(ByteReader& in, std::uint16_t format, ReplayRecord& record) {
  record.sampling.temperature = in.real();
  record.sampling.top_p = in.real();
  record.sampling.top_k = read_token(in);
  const bool seeded = in.number<std::uint8_t>() != 0;
  record.seed = in.number<std::uint64_t>();
  if (seeded) record.sampling.seed = record.seed;
  if (format >= 2) {
    record.sampling.min_p = in.real();
    record.choice = in.number<std::uint32_t>();
  }
  const auto rule = in.number<std::uint8_t>();
  record.rule = static_cast<AcceptanceRule>(rule);
  record.draft = in.short_text();
  record.draft_version = in.number<std::uint64_t>();
  record.accepted = read_token(in);
  record.first_rejections = read_token(in);
  record.steps = read_token(in);
  const SamplingParams& sampling = record.sampling;
  const bool legal = sampling.temperature >= 0 && sampling.temperature <= 100 && sampling.top_p > 0 &&
                     sampling.top_p <= 1 && sampling.min_p >= 0 && sampling.min_p <= 1 &&
                     rule <= static_cast<std::uint8_t>(AcceptanceRule::kCoupled);
  if (!legal) in.fail();
}

void write_text(ByteWriter& out, const ReplayRecord& record) {
  write_tokens(out, record.tokens);
  out.number(static_cast<std::uint32_t>(record.prompt_tokens));
  out.number(static_cast<std::uint32_t>(record.target.size()));
  for (const TopK& top : record.target) write_top_k(out, top);
}

// Skips the rows off the accepted path, which formats 1 and 2 stored and no trainer reads.
void skip_off_path(ByteReader& in) {
  const std::size_t n_rows = in.count(2 * sizeof(std::uint32_t) + kLeastTopKBytes);
  for (std::size_t i = 0; i < n_rows && in.ok(); ++i) {
    read_token(in);   // where its path branches off
    read_tokens(in);  // the tokens of its path
    read_top_k(in);
  }
}

void read_text(ByteReader& in, std::uint16_t format, ReplayRecord& record) {
  record.tokens = read_tokens(in);
  record.prompt_tokens = read_token(in);
  const std::size_t n_target = in.count(kLeastTopKBytes);
  for (std::size_t i = 0; i < n_target && in.ok(); ++i) record.target.push_back(read_top_k(in));
  if (format < 3) skip_off_path(in);
  const auto prompt = static_cast<std::size_t>(record.prompt_tokens);
  if (prompt == 0 || prompt > record.tokens.size() || record.tokens.size() - prompt != n_target) in.fail();
}

std::vector<std::byte> seal(ByteWriter& out) {
  out.overwrite(kPayloadSizeOffset, static_cast<std::uint32_t>(out.bytes().size() - FrameHeader::kBytes));
  const std::uint32_t crc = crc32c(std::span<const std::byte>(out.bytes()).subspan(kCrcBegin));
  out.overwrite(sizeof(FrameHeader::kMagic), crc);
  return std::move(out.bytes());
}

void write_header(ByteWriter& out, const FrameHeader& header) {
  out.number(FrameHeader::kMagic);
  out.number(std::uint32_t{0});  // placeholders: seal() writes CRC and payload size
  out.number(std::uint32_t{0});
  out.number(FrameHeader::kFormat);
  out.number(header.flags);
  out.number(header.sequence);
  out.number(header.ordinal);
  out.number(header.request.value);
  out.number(header.tenant.value);
  out.number(header.group);
  out.number(static_cast<std::uint64_t>(header.created_us));
  out.number(static_cast<std::uint64_t>(header.expires_us));
  SLIP_CHECK(out.bytes().size() == FrameHeader::kBytes, "the frame layout and kBytes disagree");
  out.short_text(header.topic);
  out.number(header.name.value);
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace

std::uint64_t hash_tokens(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = tokens.size();
  for (const std::int32_t token : tokens) hash = mix(hash, static_cast<std::uint32_t>(token));
  return mix(hash, 2);
}

std::vector<std::byte> encode_record(const ReplayRecord& record, std::uint64_t ordinal) {
  FrameHeader header;
  if (record.processed_logits) header.flags |= FrameHeader::kProcessedLogits;
  if (record.sampled) header.flags |= FrameHeader::kSampled;
  header.sequence = record.sequence;
  header.ordinal = ordinal;
  header.request = record.request;
  header.name = record.name;
  header.tenant = record.tenant;
  header.group = record.group;
  header.created_us = record.created_us;
  header.expires_us = record.expires_us;
  header.topic = record.topic;
  ByteWriter out;
  write_header(out, header);
  write_served(out, record);
  write_text(out, record);
  return seal(out);
}

bool FrameHeader::plausible() const {
  const bool numbered = sequence > 0 && sequence < kMaxNumber && ordinal < kMaxNumber;
  const bool named = !topic.empty() && topic.size() <= kMaxTopicNameBytes && ordinal > 0;
  return numbered && (tombstone() || named);
}

// A tombstone without any condition gets the scope of request 0, which no record has.
PurgeScope FrameHeader::scope() const {
  PurgeScope scope;
  if ((flags & kOfTenant) != 0) scope.tenant = tenant;
  if ((flags & kOfTime) != 0) scope.before_us = expires_us;
  if ((flags & kOfName) != 0 && name != NameHash{}) scope.name = name;
  const bool has_condition = scope.tenant || scope.before_us || scope.name != NameHash{};
  if (request.value != 0 || !has_condition) scope.calls = {request};
  return scope;
}

std::vector<std::byte> encode_tombstone(const PurgeScope& scope, std::uint64_t sequence, std::int64_t created_us) {
  SLIP_CHECK(scope.calls.size() + (scope.name == NameHash{} ? 0 : 1) <= 1, "a tombstone has room for one request");
  FrameHeader header;
  header.flags = FrameHeader::kTombstone;
  if (scope.tenant) header.flags |= FrameHeader::kOfTenant;
  if (scope.before_us) header.flags |= FrameHeader::kOfTime;
  if (scope.name != NameHash{}) header.flags |= FrameHeader::kOfName;
  header.name = scope.name;
  if (!scope.calls.empty()) header.request = scope.calls.front();
  header.tenant = scope.tenant.value_or(TenantId{});
  header.expires_us = scope.before_us.value_or(0);
  header.sequence = sequence;
  header.created_us = created_us;
  ByteWriter out;
  write_header(out, header);
  return seal(out);
}

std::optional<FrameHeader> parse_frame(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.number<std::uint32_t>() != FrameHeader::kMagic) return std::nullopt;
  const auto crc = in.number<std::uint32_t>();
  const std::size_t payload = in.number<std::uint32_t>();
  FrameHeader header;
  header.format = in.number<std::uint16_t>();
  header.flags = in.number<std::uint16_t>();
  header.sequence = in.number<std::uint64_t>();
  header.ordinal = in.number<std::uint64_t>();
  header.request = RequestId{in.number<std::uint64_t>()};
  header.tenant = TenantId{in.number<std::uint64_t>()};
  header.group = in.number<std::uint64_t>();
  header.created_us = static_cast<std::int64_t>(in.number<std::uint64_t>());
  header.expires_us = static_cast<std::int64_t>(in.number<std::uint64_t>());
  const bool known = header.format >= FrameHeader::kOldestFormat && header.format <= FrameHeader::kFormat;
  if (!in.ok() || !known || payload > FrameHeader::kMaxPayloadBytes || payload > in.left()) return std::nullopt;
  header.frame_bytes = FrameHeader::kBytes + payload;
  if (crc32c(bytes.subspan(kCrcBegin, header.frame_bytes - kCrcBegin)) != crc) return std::nullopt;
  ByteReader body(bytes.subspan(FrameHeader::kBytes, payload));
  header.topic = body.short_text();
  if (header.format >= kFormatWithName) header.name = NameHash{body.number<std::uint64_t>()};
  if (!body.ok()) return std::nullopt;
  return header;
}

bool is_unfinished_frame(std::span<const std::byte> bytes) {
  ByteWriter magic;
  magic.number(FrameHeader::kMagic);
  const std::size_t n_magic = std::min(bytes.size(), magic.bytes().size());
  if (n_magic == 0 ||
      !std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n_magic), magic.bytes().begin())) {
    return false;
  }
  if (bytes.size() < FrameHeader::kBytes) return true;
  ByteReader in(bytes.subspan(kPayloadSizeOffset));
  const std::size_t payload = in.number<std::uint32_t>();
  return payload <= FrameHeader::kMaxPayloadBytes && payload > bytes.size() - FrameHeader::kBytes;
}

std::optional<ReplayRecord> decode_record(std::span<const std::byte> frame) {
  const auto header = parse_frame(frame);
  if (!header || header->tombstone()) return std::nullopt;
  ReplayRecord record;
  record.request = header->request;
  record.name = header->name;
  record.tenant = header->tenant;
  record.group = header->group;
  record.created_us = header->created_us;
  record.expires_us = header->expires_us;
  record.sequence = header->sequence;
  record.processed_logits = (header->flags & FrameHeader::kProcessedLogits) != 0;
  record.sampled = header->sampled();
  ByteReader in(frame.subspan(FrameHeader::kBytes, header->frame_bytes - FrameHeader::kBytes));
  record.topic = in.short_text();
  if (header->format >= kFormatWithName) in.number<std::uint64_t>();
  read_served(in, header->format, record);
  read_text(in, header->format, record);
  if (!in.ok() || in.left() != 0) return std::nullopt;
  return record;
}

}  // namespace slip
