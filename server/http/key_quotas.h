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

// What may be spent in a minute: fills evenly up to a minute's worth. More may be spent than is there, since an
// answer's length is known only at its end; then the debt is waited off. Times are monotonic microseconds.
class MinuteAllowance {
 public:
  explicit MinuteAllowance(std::int64_t per_minute)
      : per_minute_(per_minute), available_(static_cast<double>(per_minute)) {}  // 0: unbounded

  // Until something may be spent; 0: now.
  std::int64_t wait_us(std::int64_t now_us);
  void spend(std::int64_t now_us, std::int64_t amount);
  // Another limit from now on: what was spent stays spent, as far as the new limit knows it.
  void set_per_minute(std::int64_t now_us, std::int64_t per_minute);

 private:
  void fill(std::int64_t now_us);

  std::int64_t per_minute_;
  double available_;
  std::int64_t filled_us_ = 0;
};

// Keeps each API key within its limits. It listens to the engine for what answers really cost. Any thread; short locks.
class KeyQuotas final : public StepListener {
  struct Account;

 public:
  explicit KeyQuotas(const ApiKeys& keys);

  // Other keys or limits, for requests to come; a key that stays keeps what it spent.
  void set_keys(const ApiKeys& keys, std::int64_t now_us);

  // One request's place among its key's; gives it back when it goes, also when the key has gone meanwhile.
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
    std::shared_ptr<Account> account_;  // null: a tenant of no key, or moved from
  };
  struct Entry {
    std::optional<Stay> stay;        // empty: refused
    std::string limit;               // which one refused, in words
    std::int64_t retry_after_s = 0;  // 0: when one of the key's own answers is done
  };
  // A tenant of no key has no limits.
  Entry enter(TenantId tenant, std::int64_t now_us);

  void on_step(const StepFigures&) noexcept override {}
  void on_finished(
      const RequestSummary& summary) noexcept override;  // each answer, and a prompt once for all its choices

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
  std::vector<std::shared_ptr<Account>> accounts_;  // list and contents under mutex_
};

}  // namespace slip
