// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoints/model_config.h"
#include "kernels/attention.h"

namespace slip {

// A slot's place in a pool.
struct PageSlot {
  std::int32_t page = 0;
  int offset = 0;
};

// Where the bytes of a PagePool's pages are: in the host's memory or a device's.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual std::byte* data() const = 0;
  // One slot of all layers, of which `first` is the first, each behind the one before; a slot may be its own copy. How
  // keys and values lie within a page is the memory's own affair and its kernels'.
  virtual void copy_slot(const kernels::PagedKv& first, int n_layers, PageSlot from, PageSlot to) = 0;
};

// The memory of one model shape's keys and values, in pages of `page_tokens` slots that each span all layers.
// Threads: the engine thread only (or whoever owns this pool).
class PagePool {
 public:
  static constexpr int kPageTokens = 32;

  // In the host's memory. Error{kTooLarge} when the machine cannot give n_pages × page_bytes. Memory is touched only as
  // pages are used.
  PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages);
  // REQUIRES: n_pages × page_bytes bytes in `memory`.
  PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages, std::unique_ptr<PageMemory> memory);

  // A page's index, with one holder, or -1 when none is free.
  std::int32_t allocate();
  void hold(std::int32_t page);     // one more holder of a page that has some
  void release(std::int32_t page);  // one less; the last holder's page is free again
  std::int32_t n_holders(std::int32_t page) const { return n_holders_[static_cast<std::size_t>(page)]; }
  std::int32_t n_free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t n_pages() const { return n_pages_; }
  static std::size_t page_bytes(const ModelConfig& config, Dtype dtype);

  kernels::PagedKv layer(int index) const;  // addresses in the pool's memory
  // All layers; tree compaction.
  void copy_slot(std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset);

 private:
  ModelConfig config_;
  Dtype dtype_;
  std::int32_t n_pages_;
  std::unique_ptr<PageMemory> memory_;  // [page][layer] of PagedKv
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> n_holders_;  // [n_pages]
};

// One sequence's pages in logical order; holds them, the first ones perhaps with others. Move-only.
class PageTable {
 public:
  PageTable() = default;
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  ~PageTable();

  // Makes room for `n_slots` slots in all; false (and nothing taken) when the pool cannot. std::bad_alloc likewise.
  bool reserve(std::int32_t n_slots);
  // Takes the memory that the list of so many slots' pages needs: reserve() and append_shared() up to there throw
  // nothing from now on.
  void expect(std::int32_t n_slots);
  // Gives back pages wholly beyond; rollback of rejected rows is just a shorter length.
  void shrink_to(std::int32_t n_slots);
  // Takes a page that others hold too, as this table's next or in place of its `index`-th page. REQUIRES: every slot of
  // the page is filled, with the keys and values of this sequence's tokens; nobody writes to a shared page.
  void append_shared(std::int32_t page);
  void replace(std::size_t index, std::int32_t page);
  const std::int32_t* pages() const { return pages_.data(); }
  std::int32_t capacity_slots() const { return static_cast<std::int32_t>(pages_.size()) * PagePool::kPageTokens; }

 private:
  PagePool* pool_ = nullptr;
  std::vector<std::int32_t> pages_;
};

}  // namespace slip
