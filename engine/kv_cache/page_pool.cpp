// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_cache/page_pool.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "checkpoints/checked_size.h"
#include "common/error.h"

namespace slip {
namespace {

kernels::PagedKv shape_of(const ModelConfig& config, Dtype dtype) {
  kernels::PagedKv kv;
  kv.dtype = dtype;
  kv.n_kv_heads = config.n_kv_heads;
  kv.head_dim = config.head_dim;
  kv.page_tokens = PagePool::kPageTokens;
  return kv;
}

// An anonymous mapping. It is zeroed, so kernels never read a NaN from an unwritten slot, and becomes resident only
// when used.
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
  void copy_slot(const kernels::PagedKv& first, int n_layers, PageSlot from, PageSlot to) override {
    kernels::PagedKv kv = first;
    for (int layer = 0; layer < n_layers; ++layer) {
      kernels::copy_kv(kv, from.page, from.offset, to.page, to.offset);
      kv.base = static_cast<std::byte*>(kv.base) + kernels::layer_page_bytes(kv);
    }
  }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;  // aligned to the machine's pages
};

std::unique_ptr<PageMemory> host_pages(const ModelConfig& config, Dtype dtype, std::int32_t n_pages) {
  SLIP_CHECK(n_pages > 0, "a cache without pages");
  return std::make_unique<HostPages>(
      CheckedSize(PagePool::page_bytes(config, dtype)) * CheckedSize::from_signed(n_pages), n_pages);
}

}  // namespace

std::size_t PagePool::page_bytes(const ModelConfig& config, Dtype dtype) {
  const CheckedSize bytes = CheckedSize::from_signed(kernels::layer_page_bytes(shape_of(config, dtype))) *
                            CheckedSize::from_signed(config.n_layers);
  SLIP_CHECK(bytes.valid(), "a configuration that was not checked");
  return bytes.value_or_max();
}

PagePool::PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages)
    : PagePool(config, dtype, n_pages, host_pages(config, dtype, n_pages)) {}

PagePool::PagePool(const ModelConfig& config, Dtype dtype, std::int32_t n_pages, std::unique_ptr<PageMemory> memory)
    : config_(config),
      dtype_(dtype),
      n_pages_(n_pages),
      memory_(std::move(memory)),
      n_holders_(static_cast<std::size_t>(n_pages), 0),
      is_kept_(static_cast<std::size_t>(n_pages), 0) {
  SLIP_CHECK(n_pages > 0, "a cache without pages");
  SLIP_CHECK(dtype != Dtype::kFloat16, "keys and values are bfloat16 or float32");
  free_.reserve(static_cast<std::size_t>(n_pages));
  for (std::int32_t page = n_pages - 1; page >= 0; --page) free_.push_back(page);
}

std::int32_t PagePool::allocate() {
  if (free_.empty()) return -1;
  const std::int32_t page = free_.back();
  free_.pop_back();
  n_holders_[static_cast<std::size_t>(page)] = 1;
  return page;
}

bool PagePool::is_idle(std::int32_t page) const {
  return is_kept_[static_cast<std::size_t>(page)] != 0 && n_holders(page) == 1;
}

void PagePool::hold(std::int32_t page) {
  SLIP_CHECK(page >= 0 && page < n_pages_ && n_holders(page) > 0, "a free page cannot be shared");
  if (is_idle(page)) --n_idle_;
  ++n_holders_[static_cast<std::size_t>(page)];
}

void PagePool::release(std::int32_t page) {
  SLIP_CHECK(page >= 0 && page < n_pages_ && n_holders(page) > 0, "a page given back twice");
  if (--n_holders_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
  if (is_idle(page)) ++n_idle_;
}

// Whoever had the page still holds it, so it is not idle.
void PagePool::keep(std::int32_t page) {
  hold(page);
  is_kept_[static_cast<std::size_t>(page)] = 1;
}

void PagePool::drop(std::int32_t page) {
  SLIP_CHECK(page >= 0 && page < n_pages_ && is_kept_[static_cast<std::size_t>(page)] != 0, "a page dropped twice");
  if (is_idle(page)) --n_idle_;
  is_kept_[static_cast<std::size_t>(page)] = 0;
  release(page);
}

kernels::PagedKv PagePool::layer(int index) const {
  kernels::PagedKv kv = shape_of(config_, dtype_);
  kv.base = memory_->data() + kernels::layer_page_bytes(kv) * index;
  kv.page_stride_bytes = static_cast<std::int64_t>(page_bytes(config_, dtype_));
  return kv;
}

void PagePool::copy_slot(std::int32_t from_page, int from_offset, std::int32_t to_page, int to_offset) {
  memory_->copy_slot(layer(0), config_.n_layers, {from_page, from_offset}, {to_page, to_offset});
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
  const auto wanted = static_cast<std::size_t>(PagePool::pages_for(n_slots));
  if (wanted <= pages_.size()) return true;
  SLIP_CHECK(pool_ != nullptr, "a page table without a pool");
  if (wanted - pages_.size() > static_cast<std::size_t>(pool_->n_free())) return false;
  pages_.reserve(wanted);
  while (pages_.size() < wanted) pages_.push_back(pool_->allocate());
  return true;
}

void PageTable::expect(std::int32_t n_slots) {
  pages_.reserve(static_cast<std::size_t>(PagePool::pages_for(n_slots)));
}

void PageTable::append_shared(std::int32_t page) {
  SLIP_CHECK(pool_ != nullptr, "a page table without a pool");
  pages_.push_back(page);
  pool_->hold(page);
}

void PageTable::replace(std::size_t index, std::int32_t page) {
  SLIP_CHECK(index < pages_.size(), "no such page in this table");
  pool_->hold(page);
  pool_->release(std::exchange(pages_[index], page));
}

void PageTable::shrink_to(std::int32_t n_slots) {
  const auto kept = static_cast<std::size_t>(PagePool::pages_for(n_slots));
  while (pages_.size() > kept) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace slip
