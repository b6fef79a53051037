// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "ledger/rows.h"

namespace slip {

// A bounded hand-over of rows to the writer thread. No mutex: the writer runs at the lowest priority and may lose the
// processor at any point, and whoever records must not wait for it. Full refuses the new row.
// Threads: push() any; take_all() one.
class RowInbox {
 public:
  explicit RowInbox(std::size_t capacity) : capacity_(capacity) {}
  ~RowInbox() { take_all(); }
  RowInbox(const RowInbox&) = delete;
  RowInbox& operator=(const RowInbox&) = delete;

  // False when the row was lost: the inbox is full, or there is no memory.
  bool push(LedgerRow&& row) noexcept {
    if (size_.fetch_add(1, std::memory_order_relaxed) >= capacity_) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    Node* node = new (std::nothrow) Node{std::move(row), head_.load(std::memory_order_relaxed)};
    if (node == nullptr) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    while (!head_.compare_exchange_weak(node->older, node, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return true;
  }

  // Oldest first.
  std::vector<LedgerRow> take_all() {
    std::vector<LedgerRow> rows;
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    while (node != nullptr) {
      rows.push_back(std::move(node->row));
      delete std::exchange(node, node->older);
    }
    size_.fetch_sub(rows.size(), std::memory_order_relaxed);
    return {std::make_move_iterator(rows.rbegin()), std::make_move_iterator(rows.rend())};
  }

 private:
  struct Node {
    LedgerRow row;
    Node* older;
  };
  const std::size_t capacity_;
  std::atomic<Node*> head_{nullptr};
  std::atomic<std::size_t> size_{0};
};

}  // namespace slip
