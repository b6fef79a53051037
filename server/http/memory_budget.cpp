// SPDX-License-Identifier: Apache-2.0
#include "server/http/memory_budget.h"

namespace slip {

bool MemoryBudget::Reservation::resize(std::size_t bytes) noexcept {
  if (budget_ != nullptr && bytes > bytes_ && !budget_->take(bytes - bytes_, bytes <= kSmallBytes)) return false;
  if (budget_ != nullptr && bytes < bytes_) budget_->used_.fetch_sub(bytes_ - bytes, std::memory_order_relaxed);
  bytes_ = bytes;
  return true;
}

bool MemoryBudget::take(std::size_t more, bool is_small) noexcept {
  const std::size_t bound = is_small ? bytes_ : for_large_;
  std::size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > bound || more > bound - used) return false;
  } while (!used_.compare_exchange_weak(used, used + more, std::memory_order_relaxed));
  return true;
}

}  // namespace slip
