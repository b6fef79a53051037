// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace slip {

// A bounded multi-producer multi-consumer queue with an explicit end. The two rules for "full" are two verbs, so
// that each caller states its own: `try_push` refuses, `push_dropping_oldest` makes room and says so.
// Threads: every member may be called from any thread. After close() pushes are refused and poppers drain the rest.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False, leaving `item` untouched, when the queue is full or closed.
  bool try_push(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Returns how many items were lost: the oldest when full, the new one when closed.
  std::size_t push_dropping_oldest(T&& item) {
    std::size_t dropped = 0;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return 1;
      while (items_.size() >= capacity_) {
        items_.pop_front();
        ++dropped;
      }
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return dropped;
  }

  std::optional<T> try_pop() {
    std::lock_guard lock(mutex_);
    return pop_locked();
  }

  // Waits for an item; empty when `timeout` passed, or when the queue is closed and drained.
  template <class Rep, class Period>
  std::optional<T> pop_for(std::chrono::duration<Rep, Period> timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
    return pop_locked();
  }

  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return pop_locked();
  }

  // Everything there is, at once; used by writers that batch.
  std::vector<T> drain() {
    std::lock_guard lock(mutex_);
    std::vector<T> all(std::make_move_iterator(items_.begin()), std::make_move_iterator(items_.end()));
    items_.clear();
    return all;
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  std::size_t capacity() const { return capacity_; }

 private:
  std::optional<T> pop_locked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace slip
