// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "engine/sample/distribution.h"
#include "engine/speculate/proposal.h"

namespace slip {

// The target's raw (T = 1, before any transform) next-token distribution after one verified row: the K largest log p
// with their ids, and the log of the mass left over.
struct TopK {
  static constexpr int kDefault = 32;
  std::vector<std::int32_t> ids;  // [K] by falling probability, ties by rising id
  std::vector<float> logprobs;    // [K]
  float log_tail = 0;             // log(1 − Σ p), −inf when nothing is left
};

struct ObservedRow {
  TopK target;
  bool on_accepted_path = true;  // rows off it may be trained on; canary and router may not use them
};

// What one verification taught; recorded at k = 0 too. Where the answer ended inside the accepted path, the nodes
// beyond the end are left out, so that every draft length tells the same of an answer; the row after the last token
// then predicts nothing that anybody saw and is marked as off the path.
struct Observation {
  RequestId request;
  RouteTag route;
  TenantId tenant;
  std::int32_t base_position = 0;               // index in the sequence (prompt + answer) of the token row 0 predicts
  std::vector<std::int32_t> committed;          // the tokens this verification added to the answer, in order
  std::vector<std::int32_t> proposed, parents;  // as in Proposal
  std::vector<float> q;                         // [n] probability the draft gave its own token, transformed
  std::vector<std::int32_t> accepted;           // node indices
  DraftId draft;
  std::uint64_t draft_version = 0;
  ProposalLaw law = ProposalLaw::kDeterministic;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  SamplingParams sampling;        // the transform in force
  std::vector<ObservedRow> rows;  // [1 + n]: row 0 after the last committed token, row 1 + i after node i
};

struct ObservedRequest {
  RequestId request;
  RouteTag route;
  TenantId tenant;
  std::vector<std::int32_t> prompt;
  std::string session;  // groups near-copies: the client's session or a hash of the prompt's prefix
  SamplingParams sampling;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  std::uint32_t choice = 0;
};

// Takes what verifications taught. Called on the engine thread: must not block, must not throw; drops oldest and counts
// when behind. For each request: begin, record…, finish. Never called for requests with learn == false.
class ObservationSink {
 public:
  virtual ~ObservationSink() = default;
  virtual void begin(ObservedRequest request) noexcept = 0;
  virtual void record(Observation observation) noexcept = 0;
  virtual void finish(RequestId request,
                      bool completed) noexcept = 0;  // completed: ended by itself, not cancelled or failed
};

}  // namespace slip
