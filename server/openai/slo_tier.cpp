// SPDX-License-Identifier: Apache-2.0
#include "server/openai/slo_tier.h"

#include <algorithm>
#include <charconv>

#include "server/http/api_keys.h"
#include "server/http/request_head.h"

namespace slip {
namespace {

constexpr double kLeastTargetMs = 0.001, kMostTargetMs = 3'600'000;

// The milliseconds as parse_slo() reads them, with all the digits that they need.
std::string ms_text(std::int64_t us) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<double>(us) / 1000).ptr;
  return {text.data(), end};
}

}  // namespace

bool is_target_ms(double ms) {
  return ms >= kLeastTargetMs && ms <= kMostTargetMs;
}

std::optional<SloTargets> parse_slo(std::string_view text) {
  SloTargets slo;
  bool faulty = false;
  for_each_item(text, [&](std::string_view item) {
    const auto equals = item.find('=');
    const std::string_view name = trimmed(item.substr(0, equals)),
                           value = equals == item.npos ? "" : trimmed(item.substr(equals + 1));
    const auto known =
        std::find_if(kSloTargets.begin(), kSloTargets.end(), [&](const auto& target) { return target.first == name; });
    double ms = 0;
    const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), ms);
    const bool is_number = fault == std::errc() && end == value.data() + value.size();
    faulty = faulty || known == kSloTargets.end() || !is_number || !is_target_ms(ms) || slo.*known->second > 0;
    if (!faulty) slo.*known->second = us_of_ms(ms);
  });
  return faulty ? std::nullopt : std::optional(slo);
}

std::optional<SloTier> parse_slo_tier(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  const std::string_view name = trimmed(text.substr(0, colon));
  const auto slo = parse_slo(text.substr(colon + 1));
  if (!slo || !is_plain_name(name) || name == "auto" || name == "default") return std::nullopt;
  return SloTier{std::string(name), *slo};
}

std::string slo_tier_text(const SloTier& tier) {
  std::string text = tier.name + ":";
  for (const auto& [name, target] : kSloTargets) {
    if (tier.slo.*target == 0) continue;
    text.append(text.ends_with(':') ? " " : ", ").append(name).append("=").append(ms_text(tier.slo.*target));
  }
  return text;
}

}  // namespace slip
