// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/answer_text.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/kv_cache/page_pool.h"
#include "engine/request.h"
#include "engine/speculative/proposer.h"

namespace slip {

// A request in the engine: its tokens, its pages of the target's cache, its answer so far. Engine thread only.
struct Sequence {
  // When it throws std::bad_alloc, `asked` is unchanged.
  Sequence(Request&& asked, std::uint64_t drawn_seed, PagePool& pool, std::shared_ptr<const Tokenizer> tokenizer);

  Request request;  // sampling.seed is always set; `rule` tells whether the client gave it
  AcceptanceRule rule;
  std::vector<std::int32_t> tokens;  // prompt, then answer
  std::int32_t prompt_tokens;
  PageTable pages;
  std::int32_t n_cached = 0;  // tokens the target has read
  AnswerText text;
  std::unique_ptr<AnswerGrammar> grammar;  // null: any text
  RequestFigures figures;
  bool observed = false;  // the observation sink knows it
  bool drafting = false;  // the proposer knows it
  bool scout = false;     // its draft reads it even if that does not pay
  bool verified_on_device = false;
  bool waits_for_pages = false;  // it was preempted: it holds no page, and reads its tokens again when it goes on
  StopReason reason = StopReason::kNone;
  std::optional<Error> error;

  std::int32_t n_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t n_pending() const { return n_tokens() - n_cached; }
  std::int32_t remaining() const { return prompt_tokens + request.max_tokens - n_tokens(); }
  std::int32_t most_tokens() const { return prompt_tokens + request.max_tokens; }
  // A scored prompt holds all its pages from the start: reading it again would report its log probabilities twice.
  bool may_be_preempted() const { return !request.score_prompt; }

  SequenceRef ref() const;
  // The summary at the end of the sequence. Moves from the sequence where it can, and so allocates nothing.
  RequestSummary take_summary();
  // Adds one token of the answer; true when it ended the answer (`reason` says why).
  bool commit(std::int32_t token);
  void end_unanswered();  // ends a request that only wanted its prompt read (max_tokens = 0)
  void fail(const Error& cause) noexcept;
};

// The summary of a request that ends before it ran: without reason or times. Moves from the request where it can, and
// so allocates nothing; `sink` stays.
RequestSummary summary_of(Request&& request);

}  // namespace slip
