// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace slip {

// The open connections, up to a limit and a reserve beyond it that answers probes alone. A new connection that finds no
// free place takes that of the one that has waited longest for a request. Any thread.
class ConnectionTable {
 public:
  using Id = std::uint64_t;
  enum class Right : std::uint8_t { kAnything, kProbes, kNothing };

  ConnectionTable(int limit, int reserve) : limit_(limit), reserve_(reserve) {}

  // A new connection, which waits for a request. `close` makes it end: called at most once, by a thread that enters
  // another connection, and it must not wait. nullopt: all places are taken by connections with a request under way.
  std::optional<Id> enter(std::function<void()> close);
  // What the connection may ask for now; kNothing: it was closed to make room. It waits no longer.
  Right begin_request(Id id);
  // It waits for its next request.
  void end_request(Id id);
  // Its last answer is sent; it waits for the client to close, and is the first to make room.
  void finish(Id id);
  // It has ended. Unknown ids are ignored in all of these.
  void leave(Id id);

 private:
  using Waiting = std::list<Id>;  // finished ones first, then the longest
  struct Entry {
    std::function<void()> close;
    bool in_reserve = false, waits = false;
    Waiting own;  // its id, while it does not wait: to wait and to stop cost no memory, and so never fail
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
  std::mutex mutex_;  // of all that follows
  std::unordered_map<Id, Entry> entries_;
  Waiting waiting_, waiting_in_reserve_;
  int n_in_reserve_ = 0;
  Id next_ = 0;
};

}  // namespace slip
