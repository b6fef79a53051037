// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "engine/sampling/distribution.h"
#include "engine/scheduler/slo_targets.h"
#include "engine/speculative/live_draft.h"
#include "engine/speculative/lookup/past_answers.h"
#include "engine/speculative/observation.h"
#include "engine/speculative/proposal.h"
#include "text/tokenizer.h"

namespace slip {

enum class StopReason : std::uint8_t { kNone, kEndToken, kStopString, kLength, kCancelled, kFailed };
const char* stop_reason_name(StopReason reason);  // "stop_token", "stop_string", "length", "cancelled", "failed"

const char* proposer_name(ProposedBy by);  // "draft", "prompt_lookup"

struct TokenLogprobs {
  std::int32_t token = 0;
  float logprob = 0;              // raw: T = 1, before any transform; NaN for a prompt's first token
  std::vector<TokenLogprob> top;  // [Request::top_logprobs]
};

// The tokens that one step added to one answer. `text` never holds an incomplete character or a part of a stop string.
struct TokenDelta {
  std::vector<std::int32_t> tokens;
  std::string text;
  std::vector<TokenLogprobs> logprobs;  // one per token when asked for, else empty
  // Log probabilities of a scored prompt's tokens, in order. All come before the answer's first token or with it.
  std::vector<TokenLogprobs> prompt_logprobs;
};

// Of one proposer; sums over the proposers are the figures of the same name of RequestFigures.
struct ProposerFigures {
  std::int32_t proposed = 0, accepted = 0, first_rejections = 0;
};

// Tokens that the target tested, and those of them that it accepted. Of the choices for a place, those up to the
// accepted one are tested, or all.
struct TestedTokens {
  std::int32_t tested = 0, accepted = 0;
};

struct RequestFigures {
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;  // prompt tokens taken from the prefix cache
  std::int32_t output_tokens = 0;
  std::int32_t steps = 0;  // target steps that committed tokens
  std::int32_t proposed = 0;
  std::int32_t accepted = 0;          // first choices that were accepted; α = accepted / (accepted + first_rejections)
  std::int32_t first_rejections = 0;  // first choices that were rejected
  std::int32_t accepted_siblings = 0;                 // other choices that were accepted, each after a first rejection
  std::vector<std::int32_t> accepted_at, reached_at;  // first choices, by position in the proposal
  std::array<ProposerFigures, kProposers> by_proposer{};
  std::array<std::int32_t, kMaxTreeWidth> accepted_by_rank{};     // 0: first choices; others: siblings
  std::array<std::int32_t, kMaxProposalNodes> sized_proposals{};  // [n − 1]: proposals of n nodes
  // By position in the proposal, proposer and rank.
  std::vector<std::array<std::array<TestedTokens, kMaxTreeWidth>, kProposers>> tested_at;
  std::int64_t submitted_us = 0, first_token_us = 0, finished_us = 0;  // monotonic
  std::uint64_t checksum = 0;  // over the raw logits of every committed row, if requested
  DraftId draft;
  std::uint64_t first_version = 0, last_version = 0;
  std::int32_t swaps = 0;            // draft versions changed during the answer
  std::int32_t repeated_tokens = 0;  // output tokens inside an 8-gram seen before in the same output
};

struct RequestSummary {
  RequestId id;
  RouteTag route;
  TenantId tenant;
  AcceptanceRule rule = AcceptanceRule::kRejection;
  SamplingParams sampling;
  StopReason reason = StopReason::kNone;
  std::optional<Error> error;  // with kFailed
  RequestFigures figures;
  std::string name;          // as in Request
  std::uint32_t choice = 0;  // as in Request
  RequestId call;            // as in Request, never 0
  SloTargets slo;            // as in Request
  std::string slo_tier;      // as in Request
  bool background = false;   // Request::is_background()
};

// The times that SloTargets speak of; 0: there was no such token.
double measured_tpot_ms(const RequestFigures& figures);
double measured_ttft_ms(const RequestFigures& figures);
double measured_e2e_ms(const RequestFigures& figures);
// Measured / asked, the worst of the targets that the answer has; 0: none. One of a single token has no time per token.
double slo_violation(const SloTargets& slo, const RequestFigures& figures);
// Whether an answer met all targets that it has.
bool meets(const SloTargets& slo, const RequestFigures& figures);

// Receives one answer. Called on the engine thread, in order; on_finished exactly once and last. Must not block, must
// not throw.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void on_tokens(const TokenDelta& delta) = 0;
  virtual void on_finished(const RequestSummary& summary) = 0;
};

// Who may propose for an answer. Drafts on the CPU combine with prompt lookup.
enum class ProposeBy : std::uint8_t { kDraft, kPromptLookup };

// The largest proposal of one request that a step verifies. The draft length and EngineOptions::tree_width hold as
// well.
struct TreeLimits {
  std::int32_t nodes = kMaxProposalNodes;  // from 1 to kMaxProposalNodes
  std::int32_t depth = kMaxProposalNodes;  // nodes from the root to a leaf, from 1 to kMaxProposalNodes
  std::int32_t width = kMaxTreeWidth;      // tokens for one place, from 1 to kMaxTreeWidth
  std::int32_t longest_chain() const { return std::min(nodes, depth); }
  std::int32_t most_choices() const { return std::min(nodes, width); }  // for one place
  bool operator==(const TreeLimits&) const = default;
};

inline constexpr std::int32_t kMostPriority = 1000;

struct Request {
  RequestId id;                      // unique in the process; assigned by the submitter
  RequestId call;                    // the first request made from the same client call; 0: this one
  std::string name;                  // an opaque name from the submitter: copied, never read
  std::vector<std::int32_t> prompt;  // at least one token
  SamplingParams sampling;
  std::int32_t max_tokens = 16;       // prompt + max_tokens ≤ the target's max_positions; 0: the prompt is only read
  std::vector<std::int32_t> end_ids;  // empty: only length and strings stop
  std::vector<std::string> stop_strings;
  std::vector<std::int32_t> prediction;  // a text that the answer probably repeats, for proposals; empty: none
  // Earlier answers for prompt lookup. This answer is added to them if `learn` is set and it was neither cancelled nor
  // failed. Null: none.
  std::shared_ptr<PastAnswers> past_answers;
  bool keep_stop = false;  // the text keeps the stop string, or the end token's text, that ended it
  // kText: a new text; else it continues the prompt's text. Some tokenizers write a space before a text's first word.
  StreamDecoder::Start answer_start = StreamDecoder::Start::kText;
  std::int32_t top_logprobs = -1;  // −1: none; 0: the token's own; n: also the n most likely tokens
  bool score_prompt = false;       // also the log probabilities of the prompt's tokens; needs top_logprobs ≥ 0
  bool checksum = false;
  std::shared_ptr<LiveDraft> draft;     // null: proposals without a draft model, if any
  std::optional<std::int32_t> k;        // overrides EngineOptions::k
  TreeLimits tree;                      // of its proposals
  std::optional<ProposeBy> propose_by;  // nullopt: whichever pays
  RouteTag route;
  SloTargets slo;
  std::string slo_tier;  // the name of these targets, opaque as `name`; empty: none
  TenantId tenant;
  // A tenant's waiting requests with lower values start first, as in vLLM. From −kMostPriority to kMostPriority. It
  // ages: see RequestQueue.
  std::int32_t priority = 0;
  bool learn = true;  // the answer may be observed and added to past_answers
  // Set for a background request, which the learner sends. It runs only while there is no client's request, and ends
  // unfinished when one comes. Listeners and max_waiting do not count it.
  std::optional<PromptSource> source;
  std::uint32_t choice = 0;
  std::shared_ptr<TokenSink> sink;

  bool is_background() const { return source.has_value(); }
  RequestId first_of_call() const { return call.value == 0 ? id : call; }
  // Whether the answer reports raw logits of the target, not only the tokens drawn from them.
  bool needs_logits() const { return top_logprobs >= 0 || checksum; }
};

// The argument of ObservationSink::begin().
ObservedRequest observed_request(const Request& request, AcceptanceRule rule);

}  // namespace slip
