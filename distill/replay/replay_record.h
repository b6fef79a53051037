// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "engine/speculative/observation.h"

namespace slip {

// One finished request as the trainer and the canary use it: its tokens and, for every answer token, the target's
// distribution that chose it.
struct ReplayRecord {
  RequestId request;  // the first of its call's
  TenantId tenant;
  std::string topic;              // names, not ids: records outlive the process
  std::uint64_t group = 0;        // near-copies share it (NearCopies); the held-out split is by group
  bool processed_logits = false;  // sampled from processed logits: teaches, but is no evidence about a draft
  std::int64_t created_us = 0;    // wall clock
  std::int64_t expires_us = 0;
  std::uint64_t sequence = 0;  // rising in the buffer; the canary's "newer than the cut-off"
  SamplingParams sampling;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  // with the seed, the address of its randomness
  std::string draft;         // that served it
  std::uint64_t draft_version = 0;
  std::int32_t accepted = 0, first_rejections = 0, steps = 0;  // as served
  std::vector<std::int32_t> tokens;                            // prompt then answer
  std::int32_t prompt_tokens = 0;
  std::vector<TopK> target;  // [answer tokens]: target[i] chose tokens[prompt_tokens + i]
};

// Memory behind a record, the record itself included.
std::uint64_t bytes_of(const ReplayRecord& record);

// Whether every token of a record is in a vocabulary of so many: replay files may be anybody's, and embedding tables
// have only so many rows.
bool fits_vocabulary(const ReplayRecord& record, std::int32_t vocab_size);

}  // namespace slip
