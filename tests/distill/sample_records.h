// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "common/crc32c.h"
#include "distill/replay/record_codec.h"
#include "distill/replay/replay_record.h"
#include "distill/replay/segment.h"
#include "engine/sampling/random.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::testing {

// A pseudo-random number below `bound`, addressed by the arguments.
inline std::int32_t number_at(std::uint64_t seed, std::uint32_t index, std::int32_t bound) {
  return static_cast<std::int32_t>(uniform(RandomAddress{seed, 0, index}, RandomPurpose::kDraft) * bound);
}

// A distribution whose first id has log p = `first` and whose other ids fall off evenly; the tail has 5 %.
inline TopK falling_top_k(std::int32_t token, std::int32_t vocab, int n) {
  TopK top;
  double total = 0;
  for (int i = 0; i < n; ++i) total += std::exp(-0.7 * i);
  for (int i = 0; i < n; ++i) {
    top.ids.push_back((token + i * 3) % vocab);
    top.logprobs.push_back(static_cast<float>(std::log(0.95 * std::exp(-0.7 * i) / total)));
  }
  top.log_tail = static_cast<float>(std::log(0.05));
  return top;
}

// A record of `prompt` + `answer` tokens below `vocab`; its own session unless `session` is given.
inline ReplayRecord make_record(std::uint64_t id, const std::string& topic, int prompt = 5, int answer = 7,
                                std::int32_t vocab = 50) {
  ReplayRecord record;
  record.request = RequestId{id};
  record.tenant = TenantId{id * 7};
  record.topic = topic;
  record.group = id;
  record.sampling.temperature = 0;
  record.seed = id;
  record.draft = "base";
  record.draft_version = 3;
  record.accepted = 2;
  record.first_rejections = 1;
  record.steps = 5;
  for (int i = 0; i < prompt + answer; ++i) {
    record.tokens.push_back(number_at(id, static_cast<std::uint32_t>(i), vocab));
  }
  record.prompt_tokens = prompt;
  for (int i = 0; i < answer; ++i) {
    record.target.push_back(falling_top_k(record.tokens[static_cast<std::size_t>(prompt + i)], vocab, 8));
  }
  return record;
}

// Makes a frame say that it is of an earlier format.
inline std::vector<std::byte> sealed_as(std::byte format, std::vector<std::byte> frame) {
  const auto put = [&](std::size_t at, std::uint32_t value) { std::memcpy(frame.data() + at, &value, sizeof value); };
  put(8, static_cast<std::uint32_t>(frame.size() - FrameHeader::kBytes));
  frame[12] = format;
  put(4, crc32c(std::span<const std::byte>(frame).subspan(8)));
  return frame;
}

// The frame that a build before format 4 would have written: without the name.
inline std::vector<std::byte> encode_as_format_3(const ReplayRecord& record, std::uint64_t ordinal) {
  auto frame = encode_record(record, ordinal);
  const auto name = frame.begin() + static_cast<std::ptrdiff_t>(FrameHeader::kBytes + 1 + record.topic.size());
  frame.erase(name, name + sizeof(NameHash));
  return sealed_as(std::byte{3}, std::move(frame));
}

// The frame that a build before format 2 would have written: also without min_p and choice.
inline std::vector<std::byte> encode_as_format_1(const ReplayRecord& record, std::uint64_t ordinal) {
  constexpr std::size_t kNewBytes = 8, kServedBytes = 4 + 4 + 4 + 1 + 8;  // temperature, top_p, top_k, seeded, seed
  auto frame = encode_as_format_3(record, ordinal);
  const auto new_fields =
      frame.begin() + static_cast<std::ptrdiff_t>(FrameHeader::kBytes + 1 + record.topic.size() + kServedBytes);
  frame.erase(new_fields, new_fields + kNewBytes);
  frame.insert(frame.end(), sizeof(std::uint32_t), std::byte{0});  // no rows off the accepted path
  return sealed_as(std::byte{1}, std::move(frame));
}

// A segment header of any format version.
inline std::vector<std::byte> segment_header_of_format(std::uint32_t format, std::uint64_t number) {
  auto header = encode_segment_header(number);
  std::memcpy(header.data() + 8, &format, sizeof format);
  const std::uint32_t crc = crc32c(std::span<const std::byte>(header).first(header.size() - sizeof(std::uint32_t)));
  std::memcpy(header.data() + header.size() - sizeof crc, &crc, sizeof crc);
  return header;
}

}  // namespace slip::testing
