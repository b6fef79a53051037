// SPDX-License-Identifier: Apache-2.0
// The stages that report: tokens to clients, observations to the learner, figures to listeners.
#include <algorithm>
#include <limits>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/contain.h"
#include "engine/scheduler/stages.h"
#include "engine/speculative/lookup/repeated_tokens.h"
#include "engine/speculative/observe.h"
#include "engine/speculative/raw_logits_checksum.h"

namespace slip {

// ---- emit ----

void Engine::State::emit() {
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i]->reason == StopReason::kFailed) continue;
    if (parts_[i].committed.empty() && parts_[i].first_prompt_row < 0) continue;
    const auto failure = contain([&] { running[i]->request.sink->on_tokens(take_delta(i)); });
    if (failure) fail(*running[i], *failure);
  }
}

// The row whose logits chose the committed token: the row of the token before it.
std::int32_t Engine::State::row_of_committed(const Part& part, std::size_t index) const {
  return index == 0 ? 0 : 1 + part.result.accepted[index - 1];
}

TokenLogprobs Engine::State::logprobs_of(std::span<const float> logits, std::int32_t token, std::int32_t n_top) const {
  TokenLogprobs logprobs;
  const double normalizer = top_logprobs(logits, n_top, logprobs.top);
  logprobs.token = token;
  logprobs.logprob = static_cast<float>(logits[static_cast<std::size_t>(token)] - normalizer);
  return logprobs;
}

// Each row gives the log probability of the token after it, taken while the row's logits still exist.
void Engine::State::add_prompt_logprobs(std::size_t i, TokenDelta& delta) const {
  const Sequence& sequence = *running[i];
  const std::int32_t first = parts_[i].first_prompt_row, n_rows = parts_[i].plan.n_rows;
  const auto token_at = [&](std::int32_t at) { return sequence.tokens[static_cast<std::size_t>(at)]; };
  if (first == 0) delta.prompt_logprobs.push_back({token_at(0), std::numeric_limits<float>::quiet_NaN(), {}});
  for (std::int32_t at = first + 1; at <= std::min(first + n_rows, sequence.prompt_tokens - 1); ++at) {
    const auto logits = verifier->logits(parts_[i].task, at - first - n_rows);
    check_logits(logits);
    delta.prompt_logprobs.push_back(logprobs_of(logits, token_at(at), sequence.request.top_logprobs));
  }
}

// What the step adds to an answer; takes the text that was not told yet.
TokenDelta Engine::State::take_delta(std::size_t i) {
  Sequence& sequence = *running[i];
  const Part& part = parts_[i];
  TokenDelta delta;
  delta.tokens = part.committed;
  delta.text = sequence.text.take();
  if (part.first_prompt_row >= 0) add_prompt_logprobs(i, delta);
  const std::size_t n_told = sequence.request.needs_logits() ? part.committed.size() : 0;
  for (std::size_t j = 0; j < n_told; ++j) {
    const auto logits = verifier->logits(part.task, row_of_committed(part, j));
    if (sequence.request.top_logprobs >= 0) {
      delta.logprobs.push_back(logprobs_of(logits, part.committed[j], sequence.request.top_logprobs));
    }
    if (sequence.request.checksum) {
      sequence.figures.checksum = raw_logits_checksum(logits, sequence.figures.checksum);
    }
  }
  return delta;
}

// ---- record ----

void Engine::State::record(std::int64_t start_us) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!running[i]->observed || parts_[i].committed.empty()) continue;
    const auto failure = contain([&] { observations->record(observation_of(i)); });
    if (failure) stop_observing(*running[i], /*completed=*/false);
  }
  const bool was_background = runs_background();
  retire();
  figures_.at_us = monotonic_us();
  figures_.step_us = figures_.at_us - start_us;
  if (was_background) return;
  if (cores != nullptr) cores->end_step(figures_.step_us, figures_.committed);
  for (StepListener* listener : listeners) listener->on_step(figures_);
}

Observation Engine::State::observation_of(std::size_t i) {
  const Sequence& sequence = *running[i];
  const Part& part = parts_[i];
  Observation observation;
  observation.request = sequence.request.id;
  observation.base_position = static_cast<std::int32_t>(part.ref.tokens.size());
  observation.draft = sequence.figures.draft;
  observation.draft_version = sequence.figures.last_version;
  observe_verification(
      part.proposal, part.result, part.committed, [&](std::int32_t row) { return verifier->observed(part.task, row); },
      observation);
  return observation;
}

void Engine::State::stop_observing(Sequence& sequence, bool completed) {
  if (std::exchange(sequence.observed, false)) observations->finish(sequence.request.id, completed);
}

void Engine::State::retire() {
  const auto is_live = [](const auto& sequence) { return sequence->reason == StopReason::kNone; };
  const auto done = std::stable_partition(running.begin(), running.end(), is_live);
  report_running(done - running.begin());
  std::for_each(done, running.end(), [&](const auto& sequence) { finish(*sequence); });
  running.erase(done, running.end());
  n_free_pages.store(free_pages(), std::memory_order_relaxed);
}

void Engine::State::remember_answer(const Sequence& sequence) {
  const Request& request = sequence.request;
  const bool is_whole = sequence.reason != StopReason::kCancelled && sequence.reason != StopReason::kFailed;
  if (request.past_answers == nullptr || !request.learn || !is_whole) return;
  request.past_answers->add(sequence.tokens, sequence.prompt_tokens);
}

// Ends a sequence even without memory: releases its pages, frees its id and tells its sink.
void Engine::State::finish(Sequence& sequence) {
  const auto output = std::span(sequence.tokens).subspan(static_cast<std::size_t>(sequence.prompt_tokens));
  contain([&] { sequence.figures.repeated_tokens = count_repeated_tokens(output); });
  contain([&] { remember_answer(sequence); });
  sequence.figures.finished_us = monotonic_us();
  remember_prefix(sequence);
  sequence.pages.shrink_to(0);
  if (sequence.drafting) proposer->release(sequence.request.id);
  stop_observing(sequence, sequence.reason != StopReason::kCancelled && sequence.reason != StopReason::kFailed);
  report_end(sequence.take_summary(), *sequence.request.sink);
}

void Engine::State::finish_unstarted(WaitingRequest waiting, StopReason reason, std::optional<Error> error) {
  RequestSummary summary = summary_of(std::move(waiting.request));
  summary.figures.prompt_tokens = 0;  // nothing of it was read, so no key pays for it
  summary.figures.submitted_us = waiting.submitted_us;
  summary.figures.finished_us = monotonic_us();
  summary.reason = reason;
  summary.error = std::move(error);
  report_end(std::move(summary), *waiting.request.sink);
}

void Engine::State::report_end(RequestSummary summary, TokenSink& sink) {
  request_queue.forget(summary.id);
  if (!summary.background) {
    for (StepListener* listener : listeners) listener->on_finished(summary);
  }
  const auto failure = contain([&] { sink.on_finished(summary); });
  if (failure) log_parts(LogLevel::kError, {"delivering the end of an answer failed: ", failure->what()});
}

void Engine::State::end_all() {
  while (auto waiting = request_queue.pop()) finish_unstarted(std::move(*waiting), StopReason::kCancelled);
  for (const auto& sequence : running) sequence->reason = StopReason::kCancelled;
  retire();
}

}  // namespace slip
