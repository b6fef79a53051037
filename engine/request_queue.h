// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "engine/request.h"
#include "engine/scheduler/plan.h"

namespace slip {

// A waiting request, with the seed and the time that submitting gave it.
struct WaitingRequest {
  Request request;
  std::uint64_t drawn_seed = 0;  // for requests without one
  std::int64_t submitted_us = 0;
  std::int32_t n_passed = 0;  // as in WaitingNeed
};

// A bounded queue of requests, and cancellations, from submitters to the engine thread. The tenant with the fewest
// running requests is next; among equals, the one whose latest start was longest ago. So a tenant with many requests
// delays another one by one request's end. A tenant's own requests start by priority: a level is worth kPriorityUs of
// waiting, so a request with a high number is late but never starved. Equal ones start in the order they came. Only
// push() allocates, so take and cancel work without memory. Background requests have a queue of their own
// (take_background()). Threads: push, cancel, close, n_waiting, n_before from any; the rest is the engine thread's.
class RequestQueue {
 public:
  static constexpr std::int64_t kPriorityUs = 10'000'000;

  RequestQueue(std::int32_t max_waiting, std::optional<std::uint64_t> seed);

  // Error: kOverloaded when full, kUnavailable when closed, kInvalidArgument for an id that is still in the engine.
  // Changes nothing when it throws, std::bad_alloc included. Cost: O(the tenant's waiting requests); O(1) for requests
  // of equal priority.
  void push(Request request);
  void cancel(RequestId id);
  void close();
  std::int32_t n_waiting() const;
  // The waiting requests that would start before a new one of this tenant and priority, if none came later and none
  // ended. Cost: O(tenants + the result).
  std::int32_t n_before(TenantId tenant, std::int32_t priority) const;

  // Whether any running or waiting request is cancelled; whether this one is.
  bool any_cancelled() const;
  bool is_cancelled(RequestId id) const;
  // Removes all waiting requests that are cancelled. Cost: O(waiting requests).
  std::list<WaitingRequest> take_cancelled();
  // The first `most` waiting requests in the order of their turns. REQUIRES: needs has that capacity. Cost: O(tenants +
  // most · log tenants).
  void peek_needs(std::size_t most, std::vector<WaitingNeed>& needs);
  // Removes the request with this index in the order of the latest peek_needs(), less what was taken since. It passes
  // those before it. Requests that came since have no index. Empty: none is there. REQUIRES: since that peek, no
  // request was removed but by this function and take_background().
  std::optional<WaitingRequest> take(std::size_t index);
  // Removes the first background request, whether or not others wait. Empty: none is there.
  std::optional<WaitingRequest> take_background();
  // Removes any waiting request, background requests last. Empty: none waits.
  std::optional<WaitingRequest> pop();
  // Whether background requests must end: another one waits, or the queue is closed.
  bool ends_background() const;
  void forget(RequestId id);  // the request finished: its id may be reused, a late cancel has no effect
  // Sleeps until there is a request or a cancellation; false when none can come any more, or `stop` is requested. A
  // closed queue's background requests do not count.
  bool wait(std::stop_token stop);

 private:
  struct Entry {
    TenantId tenant;
    bool cancelled = false, running = false;
  };
  using Waiting = std::list<WaitingRequest>;
  struct Tenant {
    Waiting waiting;                // in the order of their turns
    std::uint64_t waits_since = 0;  // the number of the arrival since which it has waiting requests
    std::int32_t n_running = 0;
    std::uint64_t last_start = 0;  // 0: none yet
  };
  // The place of a waiting request among all: the lowest is next. No two tenants have the same one.
  struct Turn {
    std::int32_t n_earlier = 0;  // the tenant's running requests, and its waiting ones that come before
    std::uint64_t last_start = 0, waits_since = 0;  // of the tenant
    auto operator<=>(const Turn&) const = default;
  };
  // The next request of one tenant, while peek_needs() merges those of all.
  struct Head {
    Turn turn;
    Waiting* waiting;
    Waiting::iterator at;
  };
  static Turn first_turn(const Tenant& tenant) { return {tenant.n_running, tenant.last_start, tenant.waits_since}; }
  static std::int64_t turn_us(std::int64_t submitted_us, std::int32_t priority);
  static Waiting::iterator place_of(Waiting& queue, const WaitingRequest& waiting);
  WaitingRequest remove(Waiting& queue, Waiting::iterator at);

  mutable std::mutex mutex_;
  std::condition_variable_any ready_;
  const std::size_t max_waiting_;
  std::map<TenantId, Tenant> tenants_;         // that were ever seen: as many as there are API keys
  Waiting background_;                         // background requests in the order of arrival
  std::size_t n_waiting_ = 0;                  // of all tenants
  std::unordered_map<RequestId, Entry> live_;  // waiting or running
  std::uint64_t n_arrivals_ = 0, n_starts_ = 0;
  std::vector<Head> heads_;                // of the latest peek_needs(), a heap; kept for its memory
  std::vector<Waiting::iterator> peeked_;  // by the latest peek_needs(), less what was taken since
  std::size_t n_cancelled_ = 0;            // cancelled entries of live_
  std::mt19937_64 seeds_;
  bool closed_ = false;
};

}  // namespace slip
