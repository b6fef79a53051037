// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_listener.h"
#include "server/http/api_keys.h"

namespace slip {

// A token bucket for a rate per minute; it fills evenly and holds at most a minute's worth. Spending may overdraw it,
// since an answer's length is known only at its end; later requests then wait. Times are monotonic microseconds.
class MinuteAllowance {
 public:
  explicit MinuteAllowance(std::int64_t per_minute)
      : per_minute_(per_minute), available_(static_cast<double>(per_minute)) {}  // 0: unlimited

  // The time until spending is allowed; 0: now.
  std::int64_t wait_us(std::int64_t now_us);
  void spend(std::int64_t now_us, std::int64_t amount);
  // Changes the limit. Earlier spending stays counted, as far as the new limit covers it.
  void set_per_minute(std::int64_t now_us, std::int64_t per_minute);

 private:
  void fill(std::int64_t now_us);

  std::int64_t per_minute_;
  double available_;
  std::int64_t filled_us_ = 0;
};

// Enforces each API key's limits. It listens to the engine for the actual cost of answers. Any thread; short locks.
class KeyQuotas final : public StepListener {
  struct Account;

 public:
  explicit KeyQuotas(const ApiKeys& keys);

  // Replaces keys and limits for later requests. A key that stays keeps its spending.
  void set_keys(const ApiKeys& keys, std::int64_t now_us);

  // A slot among the key's requests in flight. Released on destruction, even if the key was removed meanwhile.
  class Stay {
   public:
    Stay(KeyQuotas& quotas, std::shared_ptr<Account> account) : quotas_(&quotas), account_(std::move(account)) {}
    Stay(Stay&&) noexcept = default;
    Stay& operator=(Stay&&) = delete;
    ~Stay() {
      if (account_) quotas_->leave(*account_);
    }

   private:
    KeyQuotas* quotas_;
    std::shared_ptr<Account> account_;  // null: a tenant without a key, or moved from
  };
  struct Entry {
    std::optional<Stay> stay;        // empty: refused
    std::string limit;               // the exceeded limit, in words
    std::int64_t retry_after_s = 0;  // 0: when one of the key's own answers finishes
  };
  // A tenant without a key has no limits.
  Entry enter(TenantId tenant, std::int64_t now_us);

  // Counts each answer, and a prompt once for all its choices. A request that never started has a prompt of 0 tokens.
  void on_finished(const RequestSummary& summary) noexcept override;

 private:
  struct Account {
    TenantId tenant;
    KeyLimits limits;
    MinuteAllowance requests, tokens;
    int in_flight = 0;
  };
  std::shared_ptr<Account> find(TenantId tenant) const;
  void leave(Account& account);

  std::mutex mutex_;
  std::vector<std::shared_ptr<Account>> accounts_;  // list and contents guarded by mutex_
};

}  // namespace slip
