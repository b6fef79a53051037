// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/replay_record.h"

#include <algorithm>

namespace slip {

std::uint64_t bytes_of(const ReplayRecord& record) {
  std::uint64_t sum =
      sizeof(ReplayRecord) + record.tokens.capacity() * sizeof(std::int32_t) + record.target.capacity() * sizeof(TopK);
  for (const TopK& top : record.target) {
    sum += top.ids.capacity() * sizeof(std::int32_t) + top.logprobs.capacity() * sizeof(float);
  }
  return sum;
}

bool fits_vocabulary(const ReplayRecord& record, std::int32_t vocab_size) {
  const auto known = [&](std::int32_t token) { return token >= 0 && token < vocab_size; };
  const auto all_known = [&](const TopK& top) { return std::all_of(top.ids.begin(), top.ids.end(), known); };
  return std::all_of(record.tokens.begin(), record.tokens.end(), known) &&
         std::all_of(record.target.begin(), record.target.end(), all_known);
}

}  // namespace slip
