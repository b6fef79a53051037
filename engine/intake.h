// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <unordered_set>
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
// Threads: push, cancel, close, n_waiting from any; the rest is the engine thread's.
class Intake {
 public:
  Intake(std::int32_t max_waiting, std::optional<std::uint64_t> seed);

  // Error: kOverloaded when full, kUnavailable when closed, kInvalidArgument for an id that is still in the engine.
  void push(Request request);
  void cancel(RequestId id);
  void close();
  std::int32_t n_waiting() const;

  std::unordered_set<RequestId> take_cancelled();
  // Removes those among the waiting, in order.
  std::vector<WaitingRequest> take_waiting(const std::unordered_set<RequestId>& ids);
  std::vector<WaitingRequest> take_all_waiting();
  // Cache need in tokens of the first `most` waiting requests.
  void peek_needs(std::size_t most, std::vector<std::int32_t>& needs) const;
  std::vector<WaitingRequest> pop(std::size_t n);
  void forget(RequestId id);  // it finished: its id may come again, a late cancel means nothing
  // Sleeps until there is a request or a cancellation; false when none will come any more.
  bool wait(std::stop_token stop);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any ready_;
  const std::size_t max_waiting_;
  std::deque<WaitingRequest> waiting_;
  std::unordered_set<RequestId> live_, cancelled_;
  std::mt19937_64 seeds_;
  bool closed_ = false;
};

}  // namespace slip
