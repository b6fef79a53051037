// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "engine/speculative/observation.h"

namespace slip {

// One finished request as used by the trainer and the canary: its tokens and, for every answer token, the target's
// distribution from which it was chosen.
struct ReplayRecord {
  RequestId request;  // id of the call: that of its first request
  NameHash name;      // of the id that its client gave the call
  TenantId tenant;
  std::string topic;              // names, not ids: records outlive the process
  std::uint64_t group = 0;        // shared by near-copies (NearCopies); the held-out split is by group
  bool sampled = false;           // a further answer to a client's prompt, which the learner asked for; never evidence
  bool processed_logits = false;  // sampled from processed logits: used for training, but not as evidence
  std::int64_t created_us = 0;    // wall clock
  std::int64_t expires_us = 0;
  std::uint64_t sequence = 0;  // rises within the buffer; compared with a candidate's cut-off
  SamplingParams sampling;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  // with the seed, the address of its random numbers
  std::string draft;         // name of the draft that served it
  std::uint64_t draft_version = 0;
  std::int32_t accepted = 0, first_rejections = 0, steps = 0;  // as served
  std::vector<std::int32_t> tokens;                            // prompt then answer
  std::int32_t prompt_tokens = 0;
  std::vector<TopK> target;  // [answer tokens]: target[i] chose tokens[prompt_tokens + i]
};

// Bytes of memory of a record, including the struct itself.
std::uint64_t bytes_of(const ReplayRecord& record);

// Whether every token of a record is below `vocab_size`. Replay files are untrusted, and embedding tables have only
// that many rows.
bool fits_vocabulary(const ReplayRecord& record, std::int32_t vocab_size);

}  // namespace slip
