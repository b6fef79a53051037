// SPDX-License-Identifier: Apache-2.0
#include "server/key_quotas.h"

#include <algorithm>
#include <cmath>

#include "common/clock.h"

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

KeyQuotas::KeyQuotas(const ApiKeys& keys) {
  for (const ApiKey& key : keys.all()) {
    accounts_.push_back({key.tenant, key.limits, MinuteAllowance(key.limits.requests_per_minute),
                         MinuteAllowance(key.limits.tokens_per_minute)});
  }
}

KeyQuotas::Account* KeyQuotas::find(TenantId tenant) {
  const auto found =
      std::find_if(accounts_.begin(), accounts_.end(), [&](const Account& one) { return one.tenant == tenant; });
  return found == accounts_.end() ? nullptr : &*found;
}

KeyQuotas::Entry KeyQuotas::enter(TenantId tenant, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  Account* account = find(tenant);
  Entry entry;
  if (account != nullptr) {
    const KeyLimits& limits = account->limits;
    if (limits.requests_in_flight > 0 && account->in_flight >= limits.requests_in_flight) {
      entry.limit = std::to_string(limits.requests_in_flight) + " requests at a time";
      return entry;
    }
    const std::int64_t for_requests = account->requests.wait_us(now_us), for_tokens = account->tokens.wait_us(now_us);
    const std::int64_t wait = std::max(for_requests, for_tokens);
    if (wait > 0) {
      entry.limit = for_requests > 0 ? std::to_string(limits.requests_per_minute) + " requests a minute"
                                     : std::to_string(limits.tokens_per_minute) + " tokens a minute";
      entry.retry_after_s = (wait + kSecondUs - 1) / kSecondUs;
      return entry;
    }
    account->requests.spend(now_us, 1);
    ++account->in_flight;
  }
  entry.stay.emplace(*this, tenant);
  return entry;
}

void KeyQuotas::leave(TenantId tenant) {
  const std::lock_guard lock(mutex_);
  if (Account* account = find(tenant)) --account->in_flight;
}

void KeyQuotas::on_finished(const RequestSummary& summary) noexcept {
  const std::lock_guard lock(mutex_);
  if (Account* account = find(summary.tenant)) {
    account->tokens.spend(monotonic_us(), summary.figures.prompt_tokens + summary.figures.output_tokens);
  }
}

}  // namespace slip
