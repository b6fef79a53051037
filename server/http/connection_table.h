// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace slip {

// The open connections, up to a limit plus a reserve for probes only. A new connection without a free place replaces
// the one that has waited longest for a request. Any thread.
class ConnectionTable {
 public:
  using Id = std::uint64_t;
  enum class Right : std::uint8_t { kAnything, kProbes, kNothing };

  ConnectionTable(int limit, int reserve) : limit_(limit), reserve_(reserve) {}

  // Adds a connection, which then waits for a request. `close` must end it without blocking or calling the table; it is
  // called at most once, by a thread that enters another connection or by close_all(). nullopt: every place has a
  // request in progress.
  std::optional<Id> enter(std::function<void()> close);
  // The kinds of requests that the connection may make now; kNothing: it was closed to make room. It no longer counts
  // as waiting.
  Right begin_request(Id id);
  // The connection waits for its next request.
  void end_request(Id id);
  // Its last answer was sent. It waits for the client to close, and is replaced first.
  void finish(Id id);
  // The connection has ended. All these functions ignore unknown ids.
  void leave(Id id);
  void close_all();  // closes every connection, which keeps its entry until it leaves

 private:
  using Waiting = std::list<Id>;  // finished connections first, then the longest waiting
  struct Entry {
    std::function<void()> close;
    bool in_reserve = false, waits = false;
    // A list node with its id while it does not wait: start and end of waiting allocate nothing, so they cannot fail
    Waiting own;
    Waiting::iterator place;
  };

  Waiting& waiting_of(const Entry& entry) { return entry.in_reserve ? waiting_in_reserve_ : waiting_; }
  void add(Id id, std::function<void()> close, bool in_reserve);
  enum class End : std::uint8_t { kFirst, kLast };
  void wait(Id id, End end);
  void stop_waiting(Entry& entry) noexcept;
  std::function<void()> remove_longest(Waiting& waiting);
  void remove(Id id);

  const int limit_, reserve_;
  std::mutex mutex_;  // guards all that follows
  std::unordered_map<Id, Entry> entries_;
  Waiting waiting_, waiting_in_reserve_;
  int n_in_reserve_ = 0;
  Id next_ = 0;
};

}  // namespace slip
