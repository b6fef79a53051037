// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection_table.h"

#include <utility>

namespace slip {

std::optional<ConnectionTable::Id> ConnectionTable::enter(std::function<void()> close) {
  std::function<void()> close_other;
  Id id = 0;
  {
    const std::lock_guard lock(mutex_);
    bool in_reserve = false;
    if (static_cast<int>(entries_.size()) - n_in_reserve_ >= limit_) {
      in_reserve = waiting_.empty();
      if (!in_reserve) {
        close_other = remove_longest(waiting_);
      } else if (n_in_reserve_ >= reserve_) {
        if (waiting_in_reserve_.empty()) return std::nullopt;
        close_other = remove_longest(waiting_in_reserve_);
      }
    }
    id = next_++;
    add(id, std::move(close), in_reserve);
  }
  if (close_other) close_other();
  return id;
}

ConnectionTable::Right ConnectionTable::begin_request(Id id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Right::kNothing;
  Entry& entry = found->second;
  stop_waiting(entry);
  if (entry.in_reserve && static_cast<int>(entries_.size()) - n_in_reserve_ < limit_) {
    entry.in_reserve = false;
    --n_in_reserve_;
  }
  return entry.in_reserve ? Right::kProbes : Right::kAnything;
}

void ConnectionTable::end_request(Id id) {
  const std::lock_guard lock(mutex_);
  wait(id, End::kLast);
}

void ConnectionTable::finish(Id id) {
  const std::lock_guard lock(mutex_);
  wait(id, End::kFirst);
}

void ConnectionTable::leave(Id id) {
  const std::lock_guard lock(mutex_);
  remove(id);
}

// Allocates nothing: a server must end without memory, too.
void ConnectionTable::close_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (const auto close = std::exchange(entry.close, {})) close();
  }
}

void ConnectionTable::add(Id id, std::function<void()> close, bool in_reserve) {
  Entry entry{.close = std::move(close), .in_reserve = in_reserve, .own = {id}, .place = {}};
  entry.place = entry.own.begin();
  entries_.emplace(id, std::move(entry));
  n_in_reserve_ += in_reserve;
  wait(id, End::kLast);
}

void ConnectionTable::wait(Id id, End end) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  stop_waiting(entry);
  entry.waits = true;
  Waiting& waiting = waiting_of(entry);
  waiting.splice(end == End::kFirst ? waiting.begin() : waiting.end(), entry.own);
}

void ConnectionTable::stop_waiting(Entry& entry) noexcept {
  if (std::exchange(entry.waits, false)) entry.own.splice(entry.own.end(), waiting_of(entry), entry.place);
}

std::function<void()> ConnectionTable::remove_longest(Waiting& waiting) {
  const Id id = waiting.front();
  auto close = std::move(entries_.at(id).close);
  remove(id);
  return close;
}

void ConnectionTable::remove(Id id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  stop_waiting(found->second);
  n_in_reserve_ -= found->second.in_reserve;
  entries_.erase(found);
}

}  // namespace slip
