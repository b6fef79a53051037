// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace slip {

// A limit on the bytes that all connections hold together. Threads: any; lock-free, so the engine thread may use it.
class MemoryBudget {
 public:
  // Reservations of more than `kSmallBytes` leave `kept_for_small` of the budget to small ones, so that short requests
  // go on while large ones use the rest. REQUIRES: kept_for_small ≤ bytes.
  MemoryBudget(std::size_t bytes, std::size_t kept_for_small) : bytes_(bytes), for_large_(bytes - kept_for_small) {}
  static constexpr std::size_t kSmallBytes = std::size_t{128} << 10;

  // A part of the budget, returned on destruction. One thread at a time. The budget must outlive it.
  class Reservation {
   public:
    Reservation() = default;  // without a budget: every size fits
    explicit Reservation(MemoryBudget& budget) : budget_(&budget) {}
    ~Reservation() { release(); }
    Reservation(Reservation&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept {
      if (this == &other) return *this;
      release();
      budget_ = other.budget_;
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }

    // Changes the reservation to `bytes`. False, and unchanged, if there is no room.
    bool resize(std::size_t bytes) noexcept;
    void release() noexcept { resize(0); }
    // Adds the reservation of `other`, which must belong to the same budget.
    void absorb(Reservation&& other) noexcept {
      budget_ = other.budget_;
      bytes_ += std::exchange(other.bytes_, 0);
    }
    std::size_t bytes() const { return bytes_; }

   private:
    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  std::size_t bytes() const { return bytes_; }
  std::size_t most_at_once() const { return for_large_; }  // a larger reservation never succeeds
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  bool take(std::size_t more, bool is_small) noexcept;

  const std::size_t bytes_, for_large_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace slip
