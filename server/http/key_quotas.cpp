// SPDX-License-Identifier: Apache-2.0
#include "server/http/key_quotas.h"

#include <algorithm>
#include <cmath>

#include "common/clock.h"
#include "common/counted.h"

namespace slip {
namespace {

constexpr double kMinuteUs = 60e6;
constexpr std::int64_t kSecondUs = 1'000'000;

}  // namespace

void MinuteAllowance::fill(std::int64_t now_us) {
  const double passed = static_cast<double>(std::max<std::int64_t>(0, now_us - filled_us_));
  const auto most = static_cast<double>(per_minute_);
  available_ = std::min(most, available_ + passed * most / kMinuteUs);
  filled_us_ = std::max(filled_us_, now_us);
}

std::int64_t MinuteAllowance::wait_us(std::int64_t now_us) {
  if (per_minute_ == 0) return 0;
  fill(now_us);
  if (available_ >= 1) return 0;
  return static_cast<std::int64_t>(std::ceil((1 - available_) * kMinuteUs / static_cast<double>(per_minute_)));
}

void MinuteAllowance::spend(std::int64_t now_us, std::int64_t amount) {
  if (per_minute_ == 0) return;
  fill(now_us);
  available_ -= static_cast<double>(amount);
}

void MinuteAllowance::set_per_minute(std::int64_t now_us, std::int64_t per_minute) {
  fill(now_us);
  const double spent = per_minute_ == 0 ? 0 : static_cast<double>(per_minute_) - available_;
  per_minute_ = per_minute;
  available_ = static_cast<double>(per_minute) - spent;
}

KeyQuotas::KeyQuotas(const ApiKeys& keys) {
  set_keys(keys, monotonic_us());
}

void KeyQuotas::set_keys(const ApiKeys& keys, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Account>> accounts;
  for (const ApiKey& key : keys.all()) {
    auto account = find(key.tenant);
    if (!account) {
      account =
          std::make_shared<Account>(Account{key.tenant, key.limits, MinuteAllowance(key.limits.requests_per_minute),
                                            MinuteAllowance(key.limits.tokens_per_minute)});
    }
    account->limits = key.limits;
    account->requests.set_per_minute(now_us, key.limits.requests_per_minute);
    account->tokens.set_per_minute(now_us, key.limits.tokens_per_minute);
    accounts.push_back(std::move(account));
  }
  accounts_ = std::move(accounts);
}

std::shared_ptr<KeyQuotas::Account> KeyQuotas::find(TenantId tenant) const {
  const auto found =
      std::find_if(accounts_.begin(), accounts_.end(), [&](const auto& one) { return one->tenant == tenant; });
  return found == accounts_.end() ? nullptr : *found;
}

KeyQuotas::Entry KeyQuotas::enter(TenantId tenant, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  auto account = find(tenant);
  Entry entry;
  if (account) {
    const KeyLimits& limits = account->limits;
    if (limits.requests_in_flight > 0 && account->in_flight >= limits.requests_in_flight) {
      entry.limit = counted(static_cast<std::uint64_t>(limits.requests_in_flight), "request") + " at a time";
      return entry;
    }
    const std::int64_t for_requests = account->requests.wait_us(now_us), for_tokens = account->tokens.wait_us(now_us);
    const std::int64_t wait = std::max(for_requests, for_tokens);
    if (wait > 0) {
      entry.limit = for_requests > 0 ? counted(static_cast<std::uint64_t>(limits.requests_per_minute), "request")
                                     : counted(static_cast<std::uint64_t>(limits.tokens_per_minute), "token");
      entry.limit += " a minute";
      entry.retry_after_s = (wait + kSecondUs - 1) / kSecondUs;
      return entry;
    }
    account->requests.spend(now_us, 1);
    ++account->in_flight;
  }
  entry.stay.emplace(*this, std::move(account));
  return entry;
}

void KeyQuotas::leave(Account& account) {
  const std::lock_guard lock(mutex_);
  --account.in_flight;
}

void KeyQuotas::on_finished(const RequestSummary& summary) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto account = find(summary.tenant)) {
    const std::int64_t prompt = summary.choice == 0 ? summary.figures.prompt_tokens : 0;
    account->tokens.spend(monotonic_us(), prompt + summary.figures.output_tokens);
  }
}

}  // namespace slip
