// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
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
  std::int32_t n_passed = 0;    // as in WaitingNeed
  std::uint64_t last_peek = 0;  // the number of the latest peek_needs() that returned its need; 0: none
};

// A bounded queue of requests, and cancellations, from submitters to the engine thread. The tenant with the fewest
// running requests is next; among equals, the one whose latest start was longest ago. So a tenant with many requests
// delays another one by one request's end. A tenant's own requests start by priority: a level is worth kPriorityUs of
// waiting, so a request with a high number is late but never starved. Equal ones start in the order they came. Only
// push() allocates, so take and cancel work without memory. Background requests have a queue of their own
// (take_background()). Threads: push, cancel, close, n_waiting from any; the rest is the engine thread's.
class RequestQueue {
 public:
  static constexpr std::int64_t kPriorityUs = 10'000'000;

  RequestQueue(std::int32_t max_waiting, std::optional<std::uint64_t> seed);

  // Error: kOverloaded when full, kUnavailable when closed, kInvalidArgument for an id that is still in the engine.
  // Changes nothing when it throws, std::bad_alloc included. Cost: O(waiting requests); O(1) for one tenant's requests
  // of equal priority.
  void push(Request request);
  void cancel(RequestId id);
  void close();
  std::int32_t n_waiting() const;

  // Whether any running or waiting request is cancelled; whether this one is.
  bool any_cancelled() const;
  bool is_cancelled(RequestId id) const;
  // Removes the first waiting request that is cancelled; empty: none is.
  std::optional<WaitingRequest> pop_cancelled();
  // The first `most` waiting requests in the order of their turns. REQUIRES: needs has that capacity. Cost: O(most ·
  // waiting requests) with several tenants, O(most) with one.
  void peek_needs(std::size_t most, std::vector<WaitingNeed>& needs);
  // Removes the request with this index in the order of the latest peek_needs(), less what was taken since. It passes
  // those before it. Requests that came since have no index. Empty: none is there.
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
  struct Tenant {
    std::int32_t n_running = 0;
    std::uint64_t last_start = 0;  // 0: none yet
    std::int32_t n_ordered = 0;    // of its waiting requests, while peek_needs() orders
  };
  using Waiting = std::list<WaitingRequest>;
  static Waiting::iterator place_of(Waiting& queue, const WaitingRequest& waiting);
  static std::optional<WaitingRequest> pop_front(Waiting& queue);
  Waiting::iterator bring_next(Waiting::iterator to);

  mutable std::mutex mutex_;
  std::condition_variable_any ready_;
  const std::size_t max_waiting_;
  Waiting waiting_;                               // a tenant's requests in the order of their turns
  Waiting background_;                            // background requests in the order of arrival
  std::unordered_map<RequestId, Entry> live_;     // waiting or running
  std::unordered_map<TenantId, Tenant> tenants_;  // that were ever seen: as many as there are API keys
  std::uint64_t n_starts_ = 0;
  std::uint64_t peek_ = 1;       // the number of the latest peek_needs()
  std::size_t n_cancelled_ = 0;  // cancelled entries of live_
  std::mt19937_64 seeds_;
  bool closed_ = false;
};

}  // namespace slip
