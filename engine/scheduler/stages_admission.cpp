// SPDX-License-Identifier: Apache-2.0
// The stages that decide who runs: cancellations, cache pages for the next step, admission.
#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "common/log.h"
#include "engine/contain.h"
#include "engine/scheduler/stages.h"

namespace slip {

namespace {

constexpr std::int32_t kMostBackground = 4;  // background requests at once

}  // namespace

// ---- admit ----

void Engine::State::end_cancelled() {
  if (!request_queue.any_cancelled()) return;
  for (WaitingRequest& waiting : request_queue.take_cancelled()) {
    finish_unstarted(std::move(waiting), StopReason::kCancelled);
  }
  for (const auto& sequence : running) {
    if (request_queue.is_cancelled(sequence->request.id)) sequence->reason = StopReason::kCancelled;
  }
  retire();
}

// Pages for the next step of every running sequence, in their order. Where the cache is full, the last ones lose theirs
// and go on later; their tokens stay, and the prefix cache keeps their pages until others need them.
void Engine::State::reserve_pages() {
  n_preempted_ = 0;
  bool earlier_waits = false;
  for (std::size_t i = 0; i < running.size(); ++i) {
    Sequence& sequence = *running[i];
    const auto failure = contain([&] {
      if (!sequence.waits_for_pages && !grow(i)) preempt(sequence);
      if (sequence.waits_for_pages && (earlier_waits || !resume(sequence))) earlier_waits = true;
    });
    if (!failure) continue;
    fail(sequence, *failure);
    release_pages(sequence);
  }
}

// Lets a preempted sequence go on. False while there is too little room for it.
bool Engine::State::resume(Sequence& sequence) {
  const std::int32_t n_slots =
      slots_to_start(sequence.n_tokens(), sequence.most_tokens(), sequence.request.score_prompt);
  if (free_pages() < PagePool::pages_for(n_slots) + n_growing()) return false;
  open_pages(sequence);
  sequence.waits_for_pages = false;
  return true;
}

// False when the sequence must wait, since no later one has pages to give.
bool Engine::State::grow(std::size_t i) {
  Sequence& sequence = *running[i];
  const std::int32_t n_slots = slots_for_step(sequence.n_tokens(), sequence.most_tokens());
  const auto later = std::span(running).subspan(i + 1);
  while (!prefixes.reserve(sequence.pages, n_slots)) {
    const auto victim = std::find_if(later.rbegin(), later.rend(), [](const auto& other) {
      return other->may_be_preempted() && !other->waits_for_pages;
    });
    if (victim == later.rend()) return false;
    preempt(**victim);
  }
  return true;
}

void Engine::State::preempt(Sequence& sequence) {
  remember_prefix(sequence);
  release_pages(sequence);
  ++n_preempted_;
}

void Engine::State::release_pages(Sequence& sequence) {
  sequence.pages.shrink_to(0);
  sequence.n_cached = 0;
  sequence.waits_for_pages = true;
}

// Running sequences that may soon need another page.
std::int32_t Engine::State::n_growing() const {
  return static_cast<std::int32_t>(std::count_if(running.begin(), running.end(), [](const auto& sequence) {
    return !sequence->waits_for_pages && sequence->pages.capacity_slots() < sequence->most_tokens();
  }));
}

// Background answers end where they are when another request comes, as if their longest length were reached.
void Engine::State::end_background() {
  if (!runs_background() || !request_queue.ends_background()) return;
  for (const auto& sequence : running) sequence->reason = StopReason::kLength;
  retire();
}

// Starts background requests while the engine has no others. They use free pages only: none that the prefix cache
// keeps, and none for which a running sequence would have to wait.
void Engine::State::admit_background() {
  if ((!running.empty() && !runs_background()) || request_queue.ends_background()) return;
  const auto most = static_cast<std::size_t>(std::min(kMostBackground, options.max_running));
  std::int32_t n_free = target->cache().n_free();
  for (const auto& sequence : running) {  // less what they may still take
    const std::int32_t n_held = PagePool::pages_for(sequence->pages.capacity_slots());
    n_free -= std::max(0, PagePool::pages_for(sequence->most_tokens()) - n_held);
  }
  while (running.size() < most) {
    auto waiting = request_queue.take_background();
    if (!waiting) return;
    const Request& request = waiting->request;
    const std::int32_t need =
        PagePool::pages_for(static_cast<std::int32_t>(request.prompt.size()) + request.max_tokens);
    if (need > n_free) {
      finish_unstarted(std::move(*waiting), StopReason::kCancelled);
      continue;
    }
    n_free -= need;
    start(std::move(*waiting));
  }
}

// Of `n` sequences at the front, sets what other threads read.
void Engine::State::report_running(std::ptrdiff_t n) {
  n_running.store(runs_background() ? 0 : static_cast<std::int32_t>(n), std::memory_order_relaxed);
}

// New requests wait behind preempted sequences.
void Engine::State::admit() {
  end_background();
  const std::int32_t free_sequences = options.max_running - static_cast<std::int32_t>(running.size());
  const bool any_waits =
      std::any_of(running.begin(), running.end(), [](const auto& sequence) { return sequence->waits_for_pages; });
  std::int32_t n_waiting = request_queue.n_waiting();  // those who come from now on wait for no place
  if (free_sequences > 0 && !any_waits) {
    request_queue.peek_needs(static_cast<std::size_t>(free_sequences + kMostPassed), needs_);
    pick_admissible(needs_, free_pages() - n_growing(), free_sequences, picked_);
    for (std::size_t i = 0; i < picked_.size(); ++i) {
      if (auto waiting = request_queue.take(picked_[i] - i)) start(std::move(*waiting));  // i are gone already
    }
    // Not below 0: one who came since may be among those picked.
    n_waiting = std::max(0, n_waiting - static_cast<std::int32_t>(picked_.size()));
  }
  admit_background();
  figures_ = {};
  figures_.n_waiting = n_waiting;
  figures_.n_preempted = n_preempted_;
  report_running(std::ssize(running));
}

void Engine::State::start(WaitingRequest waiting) {
  std::unique_ptr<Sequence> sequence;
  auto failure = contain([&] {
    sequence = std::make_unique<Sequence>(std::move(waiting.request), waiting.drawn_seed, target->cache(), tokenizer);
  });
  if (failure) return finish_unstarted(std::move(waiting), StopReason::kFailed, std::move(failure));
  sequence->figures.submitted_us = waiting.submitted_us;
  failure = contain([&] { open(*sequence); });
  if (failure) {
    fail(*sequence, *failure);
    return finish(*sequence);
  }
  begin_optional(*sequence);
  join(std::move(sequence));
}

// The oldest sequences come first. Only those of one tenant change places: the one with the lowest priority number has
// the first of them, and of equal ones the oldest. So no priority takes pages from another tenant.
void Engine::State::join(std::unique_ptr<Sequence> sequence) {
  running.push_back(std::move(sequence));
  std::size_t at = running.size() - 1;
  for (std::size_t i = at; i-- > 0;) {
    const Request &earlier = running[i]->request, &joining = running[at]->request;
    if (earlier.tenant != joining.tenant) continue;
    if (earlier.priority <= joining.priority) return;
    std::swap(running[i], running[at]);
    at = i;
  }
}

// The last token is always read, for its logits. A scored prompt needs the logits of all its tokens.
void Engine::State::open_pages(Sequence& sequence) {
  const Request& request = sequence.request;
  const std::int32_t n_tokens = sequence.n_tokens(), most = sequence.most_tokens();
  const auto n_readable = static_cast<std::size_t>(request.score_prompt ? 0 : n_tokens - 1);
  sequence.pages.expect(most);
  sequence.n_cached = prefixes.open({request.tenant}, std::span(sequence.tokens).first(n_readable),
                                    slots_to_start(n_tokens, most, request.score_prompt), sequence.pages);
}

void Engine::State::open(Sequence& sequence) {
  const Request& request = sequence.request;
  open_pages(sequence);
  sequence.figures.cached_tokens = sequence.n_cached;
  sequence.verified_on_device = verifier->verifies_on_device(request.sampling);
  if (request.sampling.grammar != nullptr) {
    sequence.grammar = std::make_unique<AnswerGrammar>(request.sampling.grammar, *masks);
  }
}

// Starts what does not affect the answer: observation and drafting. A failure here does not fail the request.
void Engine::State::begin_optional(Sequence& sequence) {
  const Request& request = sequence.request;
  if (request.max_tokens == 0) return;
  if (observations != nullptr && request.learn) {
    const auto failure = contain([&] { observations->begin(observed_request(request, sequence.rule)); });
    sequence.observed = !failure;
  }
  if (!policy->speculates() || request.k.value_or(options.k) == 0) return;
  const auto failure = contain([&] {
    const SequenceRef ref = sequence.ref();
    if (!proposer->drafts_for(ref)) return;
    if (ref.live_draft != nullptr) sequence.scout = estimates_.takes_scout(ref);
    proposer->begin(ref);
    sequence.drafting = true;
  });
  if (!failure) return;
  proposer->release(request.id);
  log_parts(LogLevel::kError, {"a request runs without a draft: ", failure->what()});
}

}  // namespace slip
