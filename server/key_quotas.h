// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_listener.h"
#include "server/api_keys.h"

namespace slip {

// What may be spent in a minute: fills evenly up to a minute's worth. More may be spent than is there, since an
// answer's length is known only at its end; then the debt is waited off. Times are monotonic microseconds.
class MinuteAllowance {
 public:
  explicit MinuteAllowance(std::int64_t per_minute)
      : per_minute_(per_minute), available_(static_cast<double>(per_minute)) {}  // 0: unbounded

  // Until something may be spent; 0: now.
  std::int64_t wait_us(std::int64_t now_us);
  void spend(std::int64_t now_us, std::int64_t amount);

 private:
  void fill(std::int64_t now_us);

  std::int64_t per_minute_;
  double available_;
  std::int64_t filled_us_ = 0;
};

// Keeps each API key within its limits. It listens to the engine for what answers really cost. Any thread; short locks.
class KeyQuotas final : public StepListener {
 public:
  explicit KeyQuotas(const ApiKeys& keys);

  // One request's place among its key's; gives it back when it goes.
  class Stay {
   public:
    Stay(KeyQuotas& quotas, TenantId tenant) : quotas_(&quotas), tenant_(tenant) {}
    Stay(Stay&& other) noexcept : quotas_(std::exchange(other.quotas_, nullptr)), tenant_(other.tenant_) {}
    Stay& operator=(Stay&&) = delete;
    ~Stay() {
      if (quotas_ != nullptr) quotas_->leave(tenant_);
    }

   private:
    KeyQuotas* quotas_;
    TenantId tenant_;
  };
  struct Entry {
    std::optional<Stay> stay;        // empty: refused
    std::string limit;               // which one refused, in words
    std::int64_t retry_after_s = 0;  // 0: when one of the key's own answers is done
  };
  // A tenant of no key has no limits.
  Entry enter(TenantId tenant, std::int64_t now_us);

  void on_step(const StepFigures&) noexcept override {}
  void on_finished(const RequestSummary& summary) noexcept override;  // prompt and answer count

 private:
  struct Account {
    TenantId tenant;
    KeyLimits limits;
    MinuteAllowance requests, tokens;
    int in_flight = 0;
  };
  Account* find(TenantId tenant);
  void leave(TenantId tenant);

  std::mutex mutex_;
  std::vector<Account> accounts_;
};

}  // namespace slip
