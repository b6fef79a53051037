// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace slip {

// A bound on the bytes that all connections hold together. Threads: any; takes no lock, so the engine thread may use
// it.
class MemoryBudget {
 public:
  // Reservations of more than `kSmallBytes` leave `kept_for_small` of the budget to the others, so that short requests
  // go on while large ones have taken the rest. REQUIRES: kept_for_small ≤ bytes.
  MemoryBudget(std::size_t bytes, std::size_t kept_for_small) : bytes_(bytes), for_large_(bytes - kept_for_small) {}
  static constexpr std::size_t kSmallBytes = std::size_t{128} << 10;

  // A part of the budget, given back when it goes. One thread at a time. The budget outlives it.
  class Reservation {
   public:
    Reservation() = default;  // of no budget: there is room for everything
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

    // Holds `bytes` from now on. False where there is no room for so many; then it holds what it held.
    bool resize(std::size_t bytes) noexcept;
    void release() noexcept { resize(0); }
    // Takes over what `other`, of the same budget, holds.
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
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  bool take(std::size_t more, bool is_small) noexcept;

  const std::size_t bytes_, for_large_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace slip
