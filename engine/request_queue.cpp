// SPDX-License-Identifier: Apache-2.0
#include "engine/request_queue.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/clock.h"
#include "engine/kv_cache/page_pool.h"

namespace slip {

namespace {

std::uint64_t seed_of_this_machine() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

RequestQueue::RequestQueue(std::int32_t max_waiting, std::optional<std::uint64_t> seed)
    : max_waiting_(static_cast<std::size_t>(max_waiting)), seeds_(seed ? *seed : seed_of_this_machine()) {}

void RequestQueue::push(Request request) {
  const std::int64_t now_us = monotonic_us();
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw Error(ErrorCode::kUnavailable, "the engine is shutting down", "send the request elsewhere");
    if (waiting_.size() >= max_waiting_) {
      throw Error(ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " requests are waiting already",
                  "try again later");
    }
    const RequestId id = request.id;
    if (!live_.emplace(id, false).second) {
      throw Error(ErrorCode::kInvalidArgument, "request id " + std::to_string(id.value) + " is in use", {}, "id");
    }
    try {
      waiting_.push_back({std::move(request), seeds_(), now_us});
    } catch (const std::bad_alloc&) {
      live_.erase(id);
      throw;
    }
  }
  ready_.notify_one();
}

void RequestQueue::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(id);
    if (found == live_.end() || std::exchange(found->second, true)) return;
    ++n_cancelled_;
  }
  ready_.notify_one();
}

void RequestQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ready_.notify_all();
}

std::int32_t RequestQueue::n_waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int32_t>(waiting_.size());
}

bool RequestQueue::any_cancelled() const {
  const std::lock_guard lock(mutex_);
  return n_cancelled_ > 0;
}

bool RequestQueue::is_cancelled(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  return found != live_.end() && found->second;
}

std::optional<WaitingRequest> RequestQueue::pop_cancelled() {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const WaitingRequest& waiting) {
    return live_.find(waiting.request.id)->second;
  });
  if (found == waiting_.end()) return std::nullopt;
  std::optional<WaitingRequest> taken(std::move(*found));
  waiting_.erase(found);
  return taken;
}

void RequestQueue::peek_needs(std::size_t most, std::vector<WaitingNeed>& needs) const {
  needs.clear();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < std::min(most, waiting_.size()); ++i) {
    const Request& request = waiting_[i].request;
    const auto n_prompt = static_cast<std::int32_t>(request.prompt.size());
    const std::int32_t n_slots = slots_to_start(n_prompt, n_prompt + request.max_tokens, request.score_prompt);
    needs.push_back({PagePool::pages_for(n_slots), waiting_[i].n_passed});
  }
}

std::optional<WaitingRequest> RequestQueue::take(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index >= waiting_.size()) return std::nullopt;
  const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(index);
  for (auto passed = waiting_.begin(); passed != at; ++passed) ++passed->n_passed;
  std::optional<WaitingRequest> taken(std::move(*at));
  waiting_.erase(at);
  return taken;
}

void RequestQueue::forget(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  n_cancelled_ -= found->second ? 1 : 0;
  live_.erase(found);
}

bool RequestQueue::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  return ready_.wait(lock, std::move(stop), [&] { return closed_ || !waiting_.empty() || n_cancelled_ > 0; }) &&
         !(closed_ && waiting_.empty() && n_cancelled_ == 0);
}

}  // namespace slip
