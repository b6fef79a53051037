// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/request.h"
#include "server/openai/service.h"
#include "tests/common/patience.h"

namespace slip {

// Replaces the engine: keeps the submitted requests, answers from its own thread, and can be told to hold answers back
// or to be full.
class FakeEngine {
 public:
  std::vector<std::string> pieces = {"Hel", "lo"};  // one token each
  bool hold = false;                                // answers wait for finish() or cancel()
  bool full = false;
  std::size_t room = 1000;                        // requests that it accepts before it is full
  std::optional<Error> failure;                   // ends every answer
  std::vector<TokenLogprobs> logprobs;            // given with each piece
  std::vector<TokenLogprobs> prompt_logprobs;     // given one by one, before the pieces
  std::function<void(const Request&)> on_submit;  // on the submitting thread, before anything else

  ~FakeEngine() { end(); }

  EngineCalls calls() {
    return {[this](const Request& request) { submit(request); }, [this](RequestId id) { cancel(id); }};
  }

  void submit(const Request& request) {
    if (on_submit) {
      {
        const std::lock_guard lock(mutex_);
        ++n_submitting_;
        changed_.notify_all();
      }
      on_submit(request);
      const std::lock_guard lock(mutex_);
      --n_submitting_;
    }
    if (full) throw Error(ErrorCode::kOverloaded, "too many requests wait", "try again");
    const std::lock_guard lock(mutex_);
    if (requests_.size() == room) throw Error(ErrorCode::kOverloaded, "too many requests wait", "try again");
    requests_.push_back(request);
    if (!hold) threads_.emplace_back([this, request] { answer(request); });
    changed_.notify_all();
  }

  void cancel(RequestId id) {
    std::optional<Request> found;
    {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
      const auto held = std::find_if(requests_.begin(), requests_.end(), [&](const auto& one) { return one.id == id; });
      if (hold && held != requests_.end()) found = *held;
      changed_.notify_all();
    }
    if (found) finish(*found, StopReason::kCancelled);
  }

  void answer(const Request& request) {
    for (const auto& token : prompt_logprobs) {
      TokenDelta delta;
      delta.prompt_logprobs = {token};
      if (request.score_prompt) request.sink->on_tokens(delta);
    }
    for (const auto& piece : pieces) {
      if (request.max_tokens == 0) break;
      TokenDelta delta;
      delta.tokens = {7};
      delta.text = piece;
      if (request.top_logprobs >= 0) delta.logprobs = logprobs;
      request.sink->on_tokens(delta);
    }
    finish(request, failure ? StopReason::kFailed : StopReason::kEndToken);
  }

  void finish(const Request& request, StopReason reason) {
    RequestSummary summary;
    summary.id = request.id;
    summary.route = request.route;
    summary.reason = reason;
    if (reason == StopReason::kFailed) summary.error = failure;
    summary.figures.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    summary.figures.output_tokens = static_cast<std::int32_t>(pieces.size());
    summary.figures.steps = 2;
    summary.figures.proposed = 5;
    summary.figures.accepted = 3;
    summary.figures.first_rejections = 1;
    summary.figures.last_version = 4;
    request.sink->on_finished(summary);
  }

  // Waits up to 5 s, under a sanitizer kPatience times as long.
  bool wait_for(const std::function<bool(const FakeEngine&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5 * testing::kPatience), [&] { return condition(*this); });
  }
  // Call it under wait_for's lock, or when no request is running.
  const std::vector<Request>& requests() const { return requests_; }
  const std::vector<RequestId>& cancelled() const { return cancelled_; }
  int n_submitting() const { return n_submitting_; }  // inside on_submit

  Request request(std::size_t index) {
    wait_for([&](const FakeEngine& engine) { return engine.requests().size() > index; });
    const std::lock_guard lock(mutex_);
    return requests_.at(index);
  }

  // Waits until every answer is finished and no sink is held.
  void end() {
    std::vector<std::jthread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    threads.clear();
    const std::lock_guard lock(mutex_);
    requests_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request> requests_;
  std::vector<RequestId> cancelled_;
  int n_submitting_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace slip
