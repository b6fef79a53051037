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

WaitingNeed need_of(const WaitingRequest& waiting) {
  const Request& request = waiting.request;
  const auto n_prompt = static_cast<std::int32_t>(request.prompt.size());
  const std::int32_t n_slots = slots_to_start(n_prompt, n_prompt + request.max_tokens, request.score_prompt);
  return {PagePool::pages_for(n_slots), waiting.n_passed};
}

}  // namespace

RequestQueue::RequestQueue(std::int32_t max_waiting, std::optional<std::uint64_t> seed)
    : max_waiting_(static_cast<std::size_t>(max_waiting)), seeds_(seed ? *seed : seed_of_this_machine()) {
  peeked_.reserve(max_waiting_);
}

void RequestQueue::push(Request request) {
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t now_us = monotonic_us();
    if (closed_) throw Error(ErrorCode::kUnavailable, "the engine is shutting down", "send the request elsewhere");
    const bool is_background = request.is_background();
    if (!is_background && n_waiting_ >= max_waiting_) {
      throw Error(ErrorCode::kOverloaded, std::to_string(n_waiting_) + " requests are waiting already",
                  "try again later");
    }
    const RequestId id = request.id;
    const TenantId tenant = request.tenant;
    if (!live_.try_emplace(id, Entry{tenant}).second) {
      throw Error(ErrorCode::kInvalidArgument, "request id " + std::to_string(id.value) + " is in use", {}, "id");
    }
    try {
      Tenant& its = tenants_[tenant];
      heads_.reserve(tenants_.size());
      Waiting& queue = is_background ? background_ : its.waiting;
      if (its.waiting.empty()) its.waits_since = ++n_arrivals_;
      WaitingRequest waiting{std::move(request), seeds_(), now_us};
      queue.insert(place_of(queue, waiting), std::move(waiting));
      n_waiting_ += is_background ? 0 : 1;
    } catch (const std::bad_alloc&) {
      live_.erase(id);
      throw;
    }
  }
  ready_.notify_one();
}

// Orders a tenant's requests. Waiting lowers all priorities alike, so the order of two requests never changes.
std::int64_t RequestQueue::turn_us(std::int64_t submitted_us, std::int32_t priority) {
  return submitted_us + priority * kPriorityUs;
}

// After the last request that has no later turn.
RequestQueue::Waiting::iterator RequestQueue::place_of(Waiting& queue, const WaitingRequest& waiting) {
  const auto turn = [](const WaitingRequest& one) { return turn_us(one.submitted_us, one.request.priority); };
  auto place = queue.end();
  while (place != queue.begin() && turn(*std::prev(place)) > turn(waiting)) --place;
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
  return static_cast<std::int32_t>(n_waiting_);
}

std::int32_t RequestQueue::n_before(TenantId tenant, std::int32_t priority) const {
  const std::int64_t new_us = turn_us(monotonic_us(), priority);
  const std::lock_guard lock(mutex_);
  Turn turn{.waits_since = n_arrivals_ + 1};
  std::int32_t n = 0;
  if (const auto own = tenants_.find(tenant); own != tenants_.end()) {
    const Waiting& waiting = own->second.waiting;
    if (!waiting.empty()) turn.waits_since = own->second.waits_since;
    const auto is_later = [&](const WaitingRequest& one) {
      return turn_us(one.submitted_us, one.request.priority) > new_us;
    };
    const auto place = std::find_if(waiting.begin(), waiting.end(), is_later);
    n = static_cast<std::int32_t>(std::distance(waiting.begin(), place));
    turn.n_earlier = own->second.n_running + n;
    turn.last_start = own->second.last_start;
  }
  for (const auto& [id, other] : tenants_) {
    if (id == tenant) continue;
    Turn its = first_turn(other);
    for (std::size_t left = other.waiting.size(); left > 0 && its < turn; --left, ++its.n_earlier) ++n;
  }
  return n;
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

// From a tenant's queue or the background queue.
WaitingRequest RequestQueue::remove(Waiting& queue, Waiting::iterator at) {
  WaitingRequest removed = std::move(*at);
  queue.erase(at);
  n_waiting_ -= &queue == &background_ ? 0 : 1;
  return removed;
}

std::list<WaitingRequest> RequestQueue::take_cancelled() {
  const std::lock_guard lock(mutex_);
  Waiting cancelled;
  const auto take_from = [&](Waiting& queue) {
    for (auto at = queue.begin(); at != queue.end();) {
      const auto waiting = at++;
      if (live_.find(waiting->request.id)->second.cancelled) cancelled.splice(cancelled.end(), queue, waiting);
    }
  };
  for (auto& [id, tenant] : tenants_) take_from(tenant.waiting);
  n_waiting_ -= cancelled.size();
  take_from(background_);
  return cancelled;
}

// A tenant's turns ascend in its queue, so a merge of the queues gives the order of all.
void RequestQueue::peek_needs(std::size_t most, std::vector<WaitingNeed>& needs) {
  needs.clear();
  const std::lock_guard lock(mutex_);
  const auto is_later = [](const Head& one, const Head& other) { return one.turn > other.turn; };
  peeked_.clear();
  heads_.clear();
  for (auto& [id, tenant] : tenants_) {
    if (tenant.waiting.empty()) continue;
    heads_.push_back({first_turn(tenant), &tenant.waiting, tenant.waiting.begin()});
  }
  std::make_heap(heads_.begin(), heads_.end(), is_later);
  while (needs.size() < most && !heads_.empty()) {
    std::pop_heap(heads_.begin(), heads_.end(), is_later);
    Head& next = heads_.back();
    needs.push_back(need_of(*next.at));
    peeked_.push_back(next.at);
    ++next.turn.n_earlier;
    if (++next.at == next.waiting->end()) {
      heads_.pop_back();
    } else {
      std::push_heap(heads_.begin(), heads_.end(), is_later);
    }
  }
}

std::optional<WaitingRequest> RequestQueue::take(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index >= peeked_.size()) return std::nullopt;
  const auto place = peeked_.begin() + static_cast<std::ptrdiff_t>(index);
  std::for_each(peeked_.begin(), place, [](const auto& passed) { ++passed->n_passed; });
  const auto at = *place;
  peeked_.erase(place);
  Tenant& tenant = tenants_.find(at->request.tenant)->second;
  live_.find(at->request.id)->second.running = true;
  ++tenant.n_running;
  tenant.last_start = ++n_starts_;
  return remove(tenant.waiting, at);
}

std::optional<WaitingRequest> RequestQueue::take_background() {
  const std::lock_guard lock(mutex_);
  if (background_.empty()) return std::nullopt;
  return remove(background_, background_.begin());
}

std::optional<WaitingRequest> RequestQueue::pop() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, tenant] : tenants_) {
    if (!tenant.waiting.empty()) return remove(tenant.waiting, tenant.waiting.begin());
  }
  if (background_.empty()) return std::nullopt;
  return remove(background_, background_.begin());
}

bool RequestQueue::ends_background() const {
  const std::lock_guard lock(mutex_);
  return closed_ || n_waiting_ > 0;
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
  const auto any = [&] { return n_waiting_ > 0 || n_cancelled_ > 0; };
  return ready_.wait(lock, std::move(stop), [&] { return closed_ || any() || !background_.empty(); }) &&
         !(closed_ && !any());
}

}  // namespace slip
