// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "engine/sampling/distribution.h"
#include "engine/speculative/proposal.h"

namespace slip {

// The target's raw (T = 1, before any transform) next-token distribution after one verified row: the K largest log p
// with their ids, and the log of the remaining mass.
struct TopK {
  static constexpr int kDefault = 32;
  std::vector<std::int32_t> ids;  // [K] by falling probability, ties by rising id
  std::vector<float> logprobs;    // [K]
  float log_tail = 0;             // log(1 − Σ p), −inf when nothing is left
};

// The tokens that one verification committed and, for each, the target's distribution that chose it. Exists for every
// draft length, k = 0 included. The distributions are raw: the sampling parameters are in ObservedRequest.
struct Observation {
  RequestId request;
  std::int32_t base_position = 0;       // index in the sequence (prompt + answer) of the first committed token
  std::vector<std::int32_t> committed;  // in order
  std::vector<TopK> targets;            // [committed]: targets[i] chose committed[i]
  std::int32_t n_accepted = 0;          // accepted tokens that were the draft's first choices
  bool rejected = false;                // a first choice was rejected
  DraftId draft;
  std::uint64_t draft_version = 0;  // 0: nothing was drafted so far
};

// The source of a background request's prompt: the record of an answer to a client. The record of a further answer is
// purged, held out and deleted together with it.
struct PromptSource {
  RequestId call;
  NameHash name;
  std::uint64_t group = 0;      // ReplayRecord::group
  std::int64_t created_us = 0;  // wall clock; when the client's answer ended
  std::int64_t asked_us = 0;    // monotonic; when the learner asked for the further answer
};

struct ObservedRequest {
  RequestId request;
  RouteTag route;
  TenantId tenant;
  std::vector<std::int32_t> prompt;
  SamplingParams sampling;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  std::uint32_t choice = 0;
  RequestId call;                      // as in Request
  std::string name;                    // as in Request
  std::optional<PromptSource> source;  // as in Request
};

// Receives the observations of verifications. Called on the engine thread: must not block, must not throw. When behind,
// drops the oldest and counts them. For each request: begin, record…, finish. Never called for requests with learn ==
// false.
class ObservationSink {
 public:
  virtual ~ObservationSink() = default;
  virtual void begin(ObservedRequest request) noexcept = 0;
  virtual void record(Observation observation) noexcept = 0;
  virtual void finish(RequestId request,
                      bool completed) noexcept = 0;  // completed: not cancelled and not failed
};

}  // namespace slip
