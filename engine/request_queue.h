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

namespace slip {

// A request as it waits, with what submitting gave it.
struct WaitingRequest {
  Request request;
  std::uint64_t drawn_seed = 0;  // for requests that bring none
  std::int64_t submitted_us = 0;
};

// The one hand-over from submitters to the engine thread: a bounded queue in order of arrival, and cancellations.
// Only push() allocates: handing over and cancelling go on without memory.
// Threads: push, cancel, close, n_waiting from any; the rest is the engine thread's.
class RequestQueue {
 public:
  RequestQueue(std::int32_t max_waiting, std::optional<std::uint64_t> seed);

  // Error: kOverloaded when full, kUnavailable when closed, kInvalidArgument for an id that is still in the engine.
  // Leaves nothing behind where it throws, std::bad_alloc included.
  void push(Request request);
  void cancel(RequestId id);
  void close();
  std::int32_t n_waiting() const;

  // Whether any request that runs or waits is cancelled; whether this one is.
  bool any_cancelled() const;
  bool is_cancelled(RequestId id) const;
  // Removes the first of the waiting requests that are cancelled; empty: there is none.
  std::optional<WaitingRequest> pop_cancelled();
  // Cache need in tokens of the first `most` waiting requests. REQUIRES: needs has that capacity.
  void peek_needs(std::size_t most, std::vector<std::int32_t>& needs) const;
  std::optional<WaitingRequest> pop();  // the first; empty: none waits
  void forget(RequestId id);            // it finished: its id may come again, a late cancel means nothing
  // Sleeps until there is a request or a cancellation; false when none will come any more.
  bool wait(std::stop_token stop);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any ready_;
  const std::size_t max_waiting_;
  std::deque<WaitingRequest> waiting_;
  std::unordered_map<RequestId, bool> live_;  // and whether they are cancelled
  std::size_t n_cancelled_ = 0;               // of live_
  std::mt19937_64 seeds_;
  bool closed_ = false;
};

}  // namespace slip
