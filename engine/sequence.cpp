// SPDX-License-Identifier: Apache-2.0
#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "engine/contain.h"

namespace slip {

namespace {

// A greedy answer depends on the logits alone, so both rules give the same answer; coupled states that.
AcceptanceRule rule_of(const SamplingParams& sampling) {
  const bool coupled = sampling.seed.has_value() || sampling.temperature == 0;
  return coupled ? AcceptanceRule::kCoupled : AcceptanceRule::kRejection;
}

}  // namespace

RequestSummary summary_of(Request&& request) {
  RequestSummary summary;
  summary.id = request.id;
  summary.route = request.route;
  summary.tenant = request.tenant;
  summary.rule = rule_of(request.sampling);
  summary.figures.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  if (request.draft != nullptr) summary.figures.draft = request.draft->id();
  summary.choice = request.choice;
  summary.call = request.first_of_call();
  summary.slo = request.slo;
  summary.background = request.is_background();
  summary.sampling = std::move(request.sampling);
  summary.name = std::move(request.name);
  summary.slo_tier = std::move(request.slo_tier);
  return summary;
}

Sequence::Sequence(Request&& asked, std::uint64_t drawn_seed, PagePool& pool,
                   std::shared_ptr<const Tokenizer> tokenizer)
    : rule(rule_of(asked.sampling)),
      prompt_tokens(static_cast<std::int32_t>(asked.prompt.size())),
      pages(pool),
      text(std::move(tokenizer), asked.stop_strings, asked.keep_stop, asked.answer_start) {
  tokens.reserve(asked.prompt.size() + static_cast<std::size_t>(asked.max_tokens));
  tokens = asked.prompt;
  request = std::move(asked);
  if (!request.sampling.seed) request.sampling.seed = drawn_seed;
  figures.prompt_tokens = prompt_tokens;
  if (request.draft != nullptr) figures.draft = request.draft->id();
}

SequenceRef Sequence::ref() const {
  SequenceRef ref;
  ref.id = request.id;
  ref.tokens = tokens;
  ref.prompt_tokens = prompt_tokens;
  ref.max_total_tokens = most_tokens();
  ref.sampling = &request.sampling;
  ref.end_ids = request.end_ids;
  ref.prediction = request.prediction;
  ref.past_answers = request.past_answers.get();
  ref.rule = rule;
  ref.choice = request.choice;
  ref.live_draft = request.draft.get();
  ref.grammar = grammar.get();
  ref.tenant = request.tenant;
  ref.verified_on_device = verified_on_device;
  return ref;
}

RequestSummary Sequence::take_summary() {
  RequestSummary summary = summary_of(std::move(request));
  summary.rule = rule;
  summary.reason = reason;
  summary.error = std::move(error);
  summary.figures = std::move(figures);
  return summary;
}

bool Sequence::commit(std::int32_t token) {
  tokens.push_back(token);
  ++figures.output_tokens;
  if (figures.output_tokens == 1) figures.first_token_us = monotonic_us();
  const auto& ends = request.end_ids;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
    reason = StopReason::kEndToken;
    if (request.keep_stop) text.push(token, /*may_stop=*/false);
    text.finish();
  } else if (text.push(token, figures.output_tokens >= request.sampling.min_tokens)) {
    reason = StopReason::kStopString;
  } else if (grammar != nullptr && grammar->commit(token)) {
    reason = StopReason::kEndToken;  // only an end token could follow, so the answer ends now
    text.finish();
  } else if (remaining() == 0) {
    reason = StopReason::kLength;
    text.finish();
  }
  return reason != StopReason::kNone;
}

void Sequence::end_unanswered() {
  n_cached = n_tokens();
  reason = StopReason::kLength;
}

void Sequence::fail(const Error& cause) noexcept {
  reason = StopReason::kFailed;
  if (auto failure = contain([&] { error = cause; })) error = std::move(failure);
}

}  // namespace slip
