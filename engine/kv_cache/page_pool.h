// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoints/model_config.h"
#include "kernels/attention.h"

namespace slip {

// The location of one slot in a pool.
struct PageSlot {
  std::int32_t page = 0;
  int offset = 0;
};

// The memory of a PagePool's pages, on the host or on a device.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual std::byte* data() const = 0;
  // Copies one slot of all layers; `first` is the first layer, and layers are contiguous. Source and destination may be
  // the same slot. The layout of keys and values within a page is known only to the memory and its kernels.
  virtual void copy_slot(const kernels::PagedKv& first, int n_layers, PageSlot from, PageSlot to) = 0;
};

// The KV cache of one model shape, in pages of `page_tokens` slots that each span all layers. Threads: the engine
// thread only (or the pool's owner).
class PagePool {
 public:
  static constexpr int kPageTokens = 32;

  // In host memory. Error{kTooLarge} when the machine cannot give n_pages × page_bytes. Memory becomes resident only as
  // pages are used.
  PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages);
  // REQUIRES: n_pages × page_bytes bytes in `memory`.
  PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages, std::unique_ptr<PageMemory> memory);

  // A page's index, with one holder, or -1 when none is free.
  std::int32_t allocate();
  void hold(std::int32_t page);     // adds a holder to a page in use
  void release(std::int32_t page);  // removes a holder; a page without holders is free
  // Adds the prefix cache as a holder of a page in use, and removes it. REQUIRES: only one cache keeps pages of the
  // pool, each of them once.
  void keep(std::int32_t page);
  void drop(std::int32_t page);
  std::int32_t n_holders(std::int32_t page) const { return n_holders_[static_cast<std::size_t>(page)]; }
  std::int32_t n_free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t n_idle() const { return n_idle_; }  // pages that the prefix cache alone holds
  std::int32_t n_pages() const { return n_pages_; }
  // Pages that hold `n_slots` slots.
  static std::int32_t pages_for(std::int32_t n_slots) {
    return static_cast<std::int32_t>((std::int64_t{n_slots} + kPageTokens - 1) / kPageTokens);
  }
  static std::size_t page_bytes(const ModelConfig& config, Dtype dtype);

  kernels::PagedKv layer(int index) const;  // addresses lie in the pool's memory
  // Copies one slot of all layers, to compact an accepted tree path.
  void copy_slot(std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset);

 private:
  bool is_idle(std::int32_t page) const;

  ModelConfig config_;
  Dtype dtype_;
  std::int32_t n_pages_;
  std::unique_ptr<PageMemory> memory_;  // [page][layer] of PagedKv
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> n_holders_;  // [n_pages]
  std::vector<std::uint8_t> is_kept_;    // [n_pages] 1: the prefix cache is one of the holders
  std::int32_t n_idle_ = 0;              // counted where holders change, since each step asks and a cache is large
};

// The page table of one sequence: its pages in logical order. It is a holder of each; the first ones may be shared with
// other tables. Move-only.
class PageTable {
 public:
  PageTable() = default;
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  ~PageTable();

  // Grows to `n_slots` slots in total. Returns false, and takes nothing, when the pool has too few free pages; a
  // std::bad_alloc takes nothing either.
  bool reserve(std::int32_t n_slots);
  // Allocates the memory of the page list for `n_slots` slots: up to there, reserve() and append_shared() throw nothing
  // from now on.
  void expect(std::int32_t n_slots);
  // Releases the pages wholly beyond `n_slots`. Rolling back rejected rows only shortens the length.
  void shrink_to(std::int32_t n_slots);
  // Adds a shared page as the next one, or puts it in place of the `index`-th page. REQUIRES: every slot of the page
  // holds the keys and values of this sequence's tokens; shared pages are never written.
  void append_shared(std::int32_t page);
  void replace(std::size_t index, std::int32_t page);
  const std::int32_t* pages() const { return pages_.data(); }
  std::int32_t capacity_slots() const { return static_cast<std::int32_t>(pages_.size()) * PagePool::kPageTokens; }

 private:
  PagePool* pool_ = nullptr;
  std::vector<std::int32_t> pages_;
};

}  // namespace slip
