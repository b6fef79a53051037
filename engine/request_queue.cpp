// SPDX-License-Identifier: Apache-2.0
#include "engine/request_queue.h"

#include <algorithm>
#include <iterator>
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
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t now_us = monotonic_us();
    if (closed_) throw Error(ErrorCode::kUnavailable, "the engine is shutting down", "send the request elsewhere");
    Waiting& queue = request.is_background() ? background_ : waiting_;
    if (&queue == &waiting_ && waiting_.size() >= max_waiting_) {
      throw Error(ErrorCode::kOverloaded, std::to_string(waiting_.size()) + " requests are waiting already",
                  "try again later");
    }
    const RequestId id = request.id;
    const TenantId tenant = request.tenant;
    if (!live_.try_emplace(id, Entry{tenant}).second) {
      throw Error(ErrorCode::kInvalidArgument, "request id " + std::to_string(id.value) + " is in use", {}, "id");
    }
    try {
      tenants_.try_emplace(tenant);
      WaitingRequest waiting{std::move(request), seeds_(), now_us};
      queue.insert(place_of(queue, waiting), std::move(waiting));
    } catch (const std::bad_alloc&) {
      live_.erase(id);
      throw;
    }
  }
  ready_.notify_one();
}

// After the tenant's last request that has an earlier turn. Waiting lowers all priorities alike, so the order of two
// requests never changes.
RequestQueue::Waiting::iterator RequestQueue::place_of(Waiting& queue, const WaitingRequest& waiting) {
  const auto turn = [](const WaitingRequest& one) { return one.submitted_us + one.request.priority * kPriorityUs; };
  auto place = queue.end();
  for (auto at = queue.end(); at != queue.begin();) {
    --at;
    if (at->request.tenant != waiting.request.tenant) continue;
    if (turn(*at) <= turn(waiting)) break;
    place = at;
  }
  return place;
}

void RequestQueue::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(id);
    if (found == live_.end() || std::exchange(found->second.cancelled, true)) return;
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
  return found != live_.end() && found->second.cancelled;
}

std::optional<WaitingRequest> RequestQueue::pop_cancelled() {
  const std::lock_guard lock(mutex_);
  for (Waiting* queue : {&waiting_, &background_}) {
    const auto found = std::find_if(queue->begin(), queue->end(), [&](const WaitingRequest& waiting) {
      return live_.find(waiting.request.id)->second.cancelled;
    });
    if (found == queue->end()) continue;
    std::optional<WaitingRequest> taken(std::move(*found));
    queue->erase(found);
    return taken;
  }
  return std::nullopt;
}

// Moves the request whose turn is next, of those from `to` on, to this place.
RequestQueue::Waiting::iterator RequestQueue::bring_next(Waiting::iterator to) {
  const auto places = [&](const WaitingRequest& waiting) {
    const Tenant& tenant = tenants_.find(waiting.request.tenant)->second;
    return std::pair(tenant.n_running + tenant.n_ordered, tenant.last_start);
  };
  const auto next = std::min_element(to, waiting_.end(),
                                     [&](const auto& one, const auto& other) { return places(one) < places(other); });
  if (next == to) return to;
  waiting_.splice(to, waiting_, next);
  return next;
}

void RequestQueue::peek_needs(std::size_t most, std::vector<WaitingNeed>& needs) {
  needs.clear();
  const std::lock_guard lock(mutex_);
  ++peek_;
  for (auto& [id, tenant] : tenants_) tenant.n_ordered = 0;
  for (auto at = waiting_.begin(); needs.size() < most && at != waiting_.end(); ++at) {
    if (tenants_.size() > 1) at = bring_next(at);
    at->last_peek = peek_;
    const Request& request = at->request;
    ++tenants_.find(request.tenant)->second.n_ordered;
    const auto n_prompt = static_cast<std::int32_t>(request.prompt.size());
    const std::int32_t n_slots = slots_to_start(n_prompt, n_prompt + request.max_tokens, request.score_prompt);
    needs.push_back({PagePool::pages_for(n_slots), at->n_passed});
  }
}

// A request that came since the peek may stand between those that the peek returned, so their places do not count.
std::optional<WaitingRequest> RequestQueue::take(std::size_t index) {
  const std::lock_guard lock(mutex_);
  const auto is_peeked = [&](const WaitingRequest& waiting) { return waiting.last_peek == peek_; };
  auto at = std::find_if(waiting_.begin(), waiting_.end(), is_peeked);
  for (; index > 0 && at != waiting_.end(); --index) at = std::find_if(std::next(at), waiting_.end(), is_peeked);
  if (at == waiting_.end()) return std::nullopt;
  for (auto passed = waiting_.begin(); passed != at; ++passed) passed->n_passed += is_peeked(*passed) ? 1 : 0;
  std::optional<WaitingRequest> taken(std::move(*at));
  waiting_.erase(at);
  live_.find(taken->request.id)->second.running = true;
  Tenant& tenant = tenants_.find(taken->request.tenant)->second;
  ++tenant.n_running;
  tenant.last_start = ++n_starts_;
  return taken;
}

std::optional<WaitingRequest> RequestQueue::take_background() {
  const std::lock_guard lock(mutex_);
  return pop_front(background_);
}

std::optional<WaitingRequest> RequestQueue::pop() {
  const std::lock_guard lock(mutex_);
  return pop_front(waiting_.empty() ? background_ : waiting_);
}

std::optional<WaitingRequest> RequestQueue::pop_front(Waiting& queue) {
  if (queue.empty()) return std::nullopt;
  std::optional<WaitingRequest> taken(std::move(queue.front()));
  queue.pop_front();
  return taken;
}

bool RequestQueue::ends_background() const {
  const std::lock_guard lock(mutex_);
  return closed_ || !waiting_.empty();
}

void RequestQueue::forget(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  n_cancelled_ -= found->second.cancelled ? 1 : 0;
  if (found->second.running) --tenants_.find(found->second.tenant)->second.n_running;
  live_.erase(found);
}

bool RequestQueue::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const auto any = [&] { return !waiting_.empty() || n_cancelled_ > 0; };
  return ready_.wait(lock, std::move(stop), [&] { return closed_ || any() || !background_.empty(); }) &&
         !(closed_ && !any());
}

}  // namespace slip
