// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

namespace slip {

// A bounded hand-over between threads without a mutex. The engine's thread must never wait for a thread of lower
// priority that lost the processor inside a lock. A full inbox refuses the new item.
// Threads: push() and empty() any; take_all() one at a time.
template <class T>
class LockFreeInbox {
 public:
  explicit LockFreeInbox(std::size_t capacity) : capacity_(capacity) {}
  ~LockFreeInbox() { take_all(); }
  LockFreeInbox(const LockFreeInbox&) = delete;
  LockFreeInbox& operator=(const LockFreeInbox&) = delete;

  // False when the item was lost: the inbox is full, or there is no memory.
  bool push(T&& item) noexcept {
    if (size_.fetch_add(1, std::memory_order_relaxed) >= capacity_) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    Node* node = new (std::nothrow) Node{std::move(item), head_.load(std::memory_order_relaxed)};
    if (node == nullptr) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    while (!head_.compare_exchange_weak(node->older, node, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
    return true;
  }

  bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

  // Oldest first.
  std::vector<T> take_all() {
    std::vector<T> items;
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    while (node != nullptr) {
      items.push_back(std::move(node->item));
      delete std::exchange(node, node->older);
    }
    size_.fetch_sub(items.size(), std::memory_order_relaxed);
    return {std::make_move_iterator(items.rbegin()), std::make_move_iterator(items.rend())};
  }

 private:
  struct Node {
    T item;
    Node* older;
  };
  const std::size_t capacity_;
  std::atomic<Node*> head_{nullptr};
  std::atomic<std::size_t> size_{0};
};

}  // namespace slip
