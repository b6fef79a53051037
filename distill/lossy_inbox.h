// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <utility>

#include "common/error.h"

namespace slip {

// A bounded queue from a thread that must not wait to one of lower priority: from the engine to the record writer, and
// from there to the learner. A mutex would not do: the lower one may be preempted while it holds the mutex, and the
// other would wait for it. So producers push onto a lock-free stack, and the consumer takes the whole stack at once. A
// full inbox drops the oldest items and counts them. Its capacity is a number of items, or a sum of their weights, such
// as bytes; one item may always wait. Threads: push() and wake() from any thread (the order of one producer's items is
// kept); take_all(), wait_for() and pause_for() from one consumer.
template <class T>
class LossyInbox {
 public:
  explicit LossyInbox(std::size_t capacity)
      : capacity_(std::max<std::size_t>(capacity, 2)), wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_fd_ < 0) throw Error(ErrorCode::kIo, "no file descriptor left for an event counter", "raise `ulimit -n`");
  }
  ~LossyInbox() {
    free_list(head_.load());
    free_list(taken_);
    ::close(wake_fd_);
  }
  LossyInbox(const LossyInbox&) = delete;
  LossyInbox& operator=(const LossyInbox&) = delete;

  // `wakes` false: the item is not urgent, so a sleeping consumer is woken only once half of the capacity is used.
  void push(T item, bool wakes = true, std::size_t weight = 1) noexcept {
    const std::size_t before = size_.fetch_add(weight, std::memory_order_relaxed);
    std::size_t lost = before + weight > capacity_ ? drop_older_half() : 0;
    Node* node = new (std::nothrow) Node{std::move(item), weight, nullptr};
    if (node != nullptr) {
      attach(node);
    } else {
      size_.fetch_sub(weight, std::memory_order_relaxed);
      ++lost;
    }
    lost_.fetch_add(lost, std::memory_order_release);
    pushed_.fetch_add(1, std::memory_order_release);
    if ((wakes || before >= capacity_ / 2) && sleeping_.exchange(false)) wake();
  }

  // Appends all items to `out`, oldest first, and returns their number. std::bad_alloc: the next call delivers the
  // rest.
  std::size_t take_all(std::deque<T>& out) {
    const std::size_t left_over = deliver(out);
    taken_ = reverse(head_.exchange(nullptr, std::memory_order_acquire));
    return left_over + deliver(out);
  }

  // Returns when an item may have come, on wake(), or after the time-out.
  void wait_for(std::int64_t timeout_us) {
    sleeping_.store(true);
    if (head_.load() == nullptr && taken_ == nullptr) await_wake(timeout_us);
    sleeping_.store(false);
    forget_wakes();
  }
  // Returns on wake(), or after the time-out, whatever items there are: for a consumer that has no memory for them.
  void pause_for(std::int64_t timeout_us) {
    await_wake(timeout_us);
    forget_wakes();
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof(one));  // a full counter wakes as well
  }

  std::uint64_t pushed() const { return pushed_.load(std::memory_order_acquire); }
  // Items dropped to make room, and those for which there was no memory.
  std::uint64_t lost() const { return lost_.load(std::memory_order_acquire); }

 private:
  struct Node {
    T item;
    std::size_t weight;
    Node* next;  // the one pushed before
  };

  void await_wake(std::int64_t timeout_us) const {
    pollfd ready{wake_fd_, POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(1, timeout_us / 1000)));
  }
  void forget_wakes() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_fd_, &count, sizeof(count));  // EAGAIN is fine: it was the time-out
  }
  // Sequentially consistent with wait_for(): either the consumer sees the item, or the producer sees that the consumer
  // sleeps.
  void attach(Node* node) {
    node->next = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_seq_cst)) {
    }
  }
  std::size_t deliver(std::deque<T>& out) {
    std::size_t n = 0;
    for (; taken_ != nullptr; ++n) {
      out.push_back(std::move(taken_->item));
      size_.fetch_sub(taken_->weight, std::memory_order_relaxed);
      delete std::exchange(taken_, taken_->next);
    }
    return n;
  }
  static Node* reverse(Node* newest) {
    Node* oldest_first = nullptr;
    while (newest != nullptr) {
      Node* older = std::exchange(newest->next, oldest_first);
      oldest_first = std::exchange(newest, older);
    }
    return oldest_first;
  }
  static std::size_t free_list(Node* node) {
    std::size_t n = 0;
    for (; node != nullptr; ++n) delete std::exchange(node, node->next);
    return n;
  }

  // Drops the older half of the stack and returns the number of dropped items. It drops half at once so that, with a
  // stopped consumer, the list is walked once per capacity / 2 pushes and not at each push.
  std::size_t drop_older_half() {
    Node* newest = head_.exchange(nullptr, std::memory_order_acquire);
    Node** end = &newest;
    for (std::size_t kept = 0; *end != nullptr && kept + (*end)->weight <= capacity_ / 2; end = &(*end)->next) {
      kept += (*end)->weight;
    }
    std::size_t weight = 0;
    for (const Node* node = *end; node != nullptr; node = node->next) weight += node->weight;
    size_.fetch_sub(weight, std::memory_order_relaxed);
    const std::size_t lost = free_list(std::exchange(*end, nullptr));
    put_back(newest);
    return lost;
  }
  // Pushes the items again. Items that other producers pushed meanwhile end up below them, out of order; with one
  // producer there are none.
  void put_back(Node* newest) {
    for (Node* node = reverse(newest); node != nullptr;) {
      Node* next = node->next;
      attach(node);
      node = next;
    }
  }

  const std::size_t capacity_;
  const int wake_fd_;
  std::atomic<Node*> head_{nullptr};
  Node* taken_ = nullptr;  // the consumer's: items that take_all() has not delivered yet, oldest first
  std::atomic<std::size_t> size_{0};
  std::atomic<std::uint64_t> pushed_{0}, lost_{0};
  std::atomic<bool> sleeping_{false};
};

}  // namespace slip
