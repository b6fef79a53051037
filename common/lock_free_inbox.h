// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>
#include <utility>

namespace slip {

// A bounded multi-producer queue that is emptied as a whole: a lock-free stack, which take_all() detaches and reverses.
// A full inbox rejects the new item. It has no mutex, since the engine thread could then wait for a low-priority thread
// that lost its CPU inside the lock. Threads: any may call push() and empty(), one at a time take_all().
template <class T>
class LockFreeInbox {
  struct Node {
    T item;
    Node* next;  // in the inbox: the item pushed before; in a batch: the item pushed after
  };

 public:
  // The items taken out, oldest first: the inbox's own nodes, so taking allocates nothing and cannot lose items. One
  // owner.
  class Batch {
   public:
    class Iterator {
     public:
      using difference_type = std::ptrdiff_t;
      using value_type = T;
      using reference = const T&;
      using pointer = const T*;
      using iterator_category = std::forward_iterator_tag;
      explicit Iterator(const Node* node = nullptr) : node_(node) {}
      reference operator*() const { return node_->item; }
      pointer operator->() const { return &node_->item; }
      Iterator& operator++() {
        node_ = node_->next;
        return *this;
      }
      Iterator operator++(int) { return std::exchange(*this, Iterator(node_->next)); }
      bool operator==(const Iterator&) const = default;

     private:
      const Node* node_;
    };

    Batch() = default;
    Batch(Batch&& other) noexcept : oldest_(std::exchange(other.oldest_, nullptr)) {}
    Batch& operator=(Batch&& other) noexcept {
      std::swap(oldest_, other.oldest_);
      return *this;
    }
    ~Batch() { clear(); }

    Iterator begin() const { return Iterator(oldest_); }
    Iterator end() const { return Iterator(); }
    bool empty() const { return oldest_ == nullptr; }
    void clear() {
      while (oldest_ != nullptr) delete std::exchange(oldest_, oldest_->next);
    }

   private:
    friend class LockFreeInbox;
    Node* oldest_ = nullptr;
  };

  explicit LockFreeInbox(std::size_t capacity) : capacity_(capacity) {}
  ~LockFreeInbox() { take_all(); }
  LockFreeInbox(const LockFreeInbox&) = delete;
  LockFreeInbox& operator=(const LockFreeInbox&) = delete;

  // False if the inbox is full or memory is exhausted; the item is then lost.
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
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
    return true;
  }

  // Sequentially consistent, as push() is, so that no wake-up is lost. A consumer announces that it will sleep, then
  // calls empty(). A producer calls push(), then looks for the announcement. At least one of them sees the other's.
  bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

  // Removes all items.
  Batch take_all() noexcept {
    Batch batch;
    std::size_t n = 0;
    for (Node* node = head_.exchange(nullptr, std::memory_order_acquire); node != nullptr; ++n) {
      Node* older = std::exchange(node->next, batch.oldest_);
      batch.oldest_ = std::exchange(node, older);
    }
    size_.fetch_sub(n, std::memory_order_relaxed);
    return batch;
  }

 private:
  const std::size_t capacity_;
  std::atomic<Node*> head_{nullptr};
  std::atomic<std::size_t> size_{0};
};

}  // namespace slip
