// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
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

// A bounded queue of requests, and cancellations, from submitters to the engine thread. Only push() allocates, so take
// and cancel work without memory. Threads: push, cancel, close, n_waiting from any; the rest is the engine thread's.
class RequestQueue {
 public:
  RequestQueue(std::int32_t max_waiting, std::optional<std::uint64_t> seed);

  // Error: kOverloaded when full, kUnavailable when closed, kInvalidArgument for an id that is still in the engine.
  // Changes nothing when it throws, std::bad_alloc included.
  void push(Request request);
  void cancel(RequestId id);
  void close();
  std::int32_t n_waiting() const;

  // Whether any running or waiting request is cancelled; whether this one is.
  bool any_cancelled() const;
  bool is_cancelled(RequestId id) const;
  // Removes the first waiting request that is cancelled; empty: none is.
  std::optional<WaitingRequest> pop_cancelled();
  // The first `most` waiting requests, in the order of arrival. REQUIRES: needs has that capacity.
  void peek_needs(std::size_t most, std::vector<WaitingNeed>& needs) const;
  // Removes the request with this index in the order of arrival, which so passes those before it; empty: none is there.
  std::optional<WaitingRequest> take(std::size_t index);
  void forget(RequestId id);  // the request finished: its id may be reused, a late cancel has no effect
  // Sleeps until there is a request or a cancellation; false when none can come any more.
  bool wait(std::stop_token stop);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any ready_;
  const std::size_t max_waiting_;
  std::deque<WaitingRequest> waiting_;
  std::unordered_map<RequestId, bool> live_;  // id → whether it is cancelled
  std::size_t n_cancelled_ = 0;               // cancelled entries of live_
  std::mt19937_64 seeds_;
  bool closed_ = false;
};

}  // namespace slip
