// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "engine/request.h"
#include "engine/speculative/live_draft.h"
#include "engine/speculative/lookup/past_answers.h"
#include "engine/speculative/proposal.h"
#include "router/router.h"
#include "server/openai/purge.h"
#include "server/openai/slo_tier.h"
#include "text/tokenizer.h"

namespace slip {

// The engine's functions that serving calls. Any thread may call them.
struct EngineCalls {
  std::function<void(Request)> submit;
  std::function<void(RequestId)> cancel;
  // Error{kUnattainable} for a request that asks for a speed which it would not get now, after `n_before` further
  // requests. Empty: none is refused for it.
  std::function<void(const Request&, std::int32_t n_before)> check_speed;
};

// The loaded model and its parts. Immutable, except that the router learns. The engine behind it outlives the service's
// last request.
struct ServedModel {
  std::vector<std::string> names;  // the first is canonical
  std::string system_fingerprint;  // of build and target, which determine answers; independent of the draft
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: no chat completions
  std::int32_t max_positions = 0;
  std::vector<std::int32_t> end_ids;
  std::shared_ptr<Router> router;                       // never null; learns while it serves, with its own lock
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;  // [topics.size()]; empty: plain decoding
  std::shared_ptr<PastAnswersTable> past_answers;       // null: none are kept
  std::int32_t k = kMaxProposalNodes;                   // proposed tokens a step at most; 0: plain decoding
  std::size_t max_waiting = 256;                        // choices of one call at most
  const DraftStore* drafts = nullptr;                   // null: no drafts to list
  std::vector<SloTier> slo_tiers;                       // what `service_tier` may name
  EngineCalls engine;
  PurgeFunction purge;  // empty: no data is stored; clients see its errors
};

}  // namespace slip
