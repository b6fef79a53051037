// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_pool.h"

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <utility>

#include "checkpoints/checked_size.h"
#include "common/error.h"

namespace slip {
namespace {

std::size_t layer_bytes(const ModelConfig& config, Dtype dtype) {
  const CheckedSize bytes = CheckedSize(2) * CheckedSize::from_signed(config.n_kv_heads) *
                            CheckedSize(PagePool::kPageTokens) * CheckedSize::from_signed(config.head_dim) *
                            CheckedSize(dtype_bytes(dtype));
  SLIP_CHECK(bytes.valid(), "a configuration that was not checked");
  return bytes.value_or_max();
}

std::int32_t pages_for(std::int32_t n_slots) {
  return (n_slots + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
}

// An anonymous mapping: zeroed, so that no kernel ever reads a NaN from a slot nobody wrote, and not resident until
// used.
class HostPages final : public PageMemory {
 public:
  // Error{kTooLarge}.
  HostPages(CheckedSize wanted, std::int32_t n_pages) : bytes_(static_cast<std::size_t>(wanted.value_or_max())) {
    void* memory = wanted.valid() ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                  : MAP_FAILED;
    if (memory == MAP_FAILED) {
      throw Error(ErrorCode::kTooLarge, "no memory for a cache of " + std::to_string(n_pages) + " pages",
                  "lower the number of cached tokens");
    }
    ::madvise(memory, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(memory);
  }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages() override { ::munmap(data_, bytes_); }

  std::byte* data() const override { return data_; }
  void copy_blocks(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t stride,
                   std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) std::memmove(to + i * stride, from + i * stride, bytes);
  }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;  // on a border of the machine's pages
};

std::unique_ptr<PageMemory> host_pages(const ModelConfig& config, Dtype dtype, std::int32_t n_pages) {
  SLIP_CHECK(n_pages > 0, "a cache without pages");
  return std::make_unique<HostPages>(
      CheckedSize(PagePool::page_bytes(config, dtype)) * CheckedSize::from_signed(n_pages), n_pages);
}

}  // namespace

std::size_t PagePool::page_bytes(const ModelConfig& config, Dtype dtype) {
  return layer_bytes(config, dtype) * static_cast<std::size_t>(config.n_layers);
}

PagePool::PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages)
    : PagePool(config, dtype, n_pages, host_pages(config, dtype, n_pages)) {}

PagePool::PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages, std::unique_ptr<PageMemory> memory)
    : config_(config),
      dtype_(dtype),
      n_pages_(n_pages),
      memory_(std::move(memory)),
      taken_(static_cast<std::size_t>(n_pages), false) {
  SLIP_CHECK(n_pages > 0, "a cache without pages");
  SLIP_CHECK(dtype != Dtype::kFloat16, "keys and values are bfloat16 or float32");
  free_.reserve(static_cast<std::size_t>(n_pages));
  for (std::int32_t page = n_pages - 1; page >= 0; --page) free_.push_back(page);
}

std::int32_t PagePool::allocate() {
  if (free_.empty()) return -1;
  const std::int32_t page = free_.back();
  free_.pop_back();
  taken_[static_cast<std::size_t>(page)] = true;
  return page;
}

void PagePool::release(std::int32_t page) {
  SLIP_CHECK(page >= 0 && page < n_pages_ && taken_[static_cast<std::size_t>(page)], "a page given back twice");
  taken_[static_cast<std::size_t>(page)] = false;
  free_.push_back(page);
}

kernels::PagedKv PagePool::layer(int index) const {
  kernels::PagedKv kv;
  kv.base = memory_->data() + layer_bytes(config_, dtype_) * static_cast<std::size_t>(index);
  kv.page_stride_bytes = static_cast<std::int64_t>(page_bytes(config_, dtype_));
  kv.dtype = dtype_;
  kv.n_kv_heads = config_.n_kv_heads;
  kv.head_dim = config_.head_dim;
  kv.page_tokens = kPageTokens;
  return kv;
}

void PagePool::copy_slot(std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset) {
  const std::size_t slot_bytes = static_cast<std::size_t>(config_.head_dim) * dtype_bytes(dtype_);
  const std::size_t stride = page_bytes(config_, dtype_);
  const std::byte* from = memory_->data() + stride * static_cast<std::size_t>(from_page) +
                          slot_bytes * static_cast<std::size_t>(from_offset);
  std::byte* to =
      memory_->data() + stride * static_cast<std::size_t>(to_page) + slot_bytes * static_cast<std::size_t>(to_offset);
  // k and v of one head are alike: [slot][head_dim], so layers × {k, v} × heads is one flat count of such blocks.
  const auto n_blocks = static_cast<std::size_t>(config_.n_layers * 2 * config_.n_kv_heads);
  memory_->copy_blocks(to, from, slot_bytes, slot_bytes * kPageTokens, n_blocks);
}

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), pages_(std::exchange(other.pages_, {})) {}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this != &other) {
    shrink_to(0);
    pool_ = std::exchange(other.pool_, nullptr);
    pages_ = std::exchange(other.pages_, {});
  }
  return *this;
}

PageTable::~PageTable() {
  shrink_to(0);
}

bool PageTable::reserve(std::int32_t n_slots) {
  const auto wanted = static_cast<std::size_t>(pages_for(n_slots));
  if (wanted <= pages_.size()) return true;
  SLIP_CHECK(pool_ != nullptr, "a page table without a pool");
  if (wanted - pages_.size() > static_cast<std::size_t>(pool_->n_free())) return false;
  while (pages_.size() < wanted) pages_.push_back(pool_->allocate());
  return true;
}

void PageTable::shrink_to(std::int32_t n_slots) {
  const auto kept = static_cast<std::size_t>(pages_for(n_slots));
  while (pages_.size() > kept) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace slip
