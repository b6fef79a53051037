// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/scheduler/slo_targets.h"

namespace slip {

// A speed with a name, which requests ask for as their `service_tier`.
struct SloTier {
  static constexpr std::size_t kMostTiers = 16;

  std::string name;  // 1 to 64 of A-Z a-z 0-9 . _ -
  SloTargets slo;    // at least one
};

// The target times by the names that clients use.
inline constexpr std::array<std::pair<std::string_view, std::int64_t SloTargets::*>, 3> kSloTargets = {
    {{"tpot", &SloTargets::tpot_us}, {"ttft", &SloTargets::ttft_us}, {"e2e", &SloTargets::e2e_us}}};

// Whether a target may be so many milliseconds: from a microsecond to an hour.
bool is_target_ms(double ms);

// Reads "tpot=40, ttft=500, e2e=4000", in milliseconds: one target or more, each once. nullopt for any other text.
// Pure.
std::optional<SloTargets> parse_slo(std::string_view text);

// Reads "NAME: TARGETS". nullopt for any other text. Pure.
std::optional<SloTier> parse_slo_tier(std::string_view text);
std::string slo_tier_text(const SloTier& tier);  // what parse_slo_tier() reads

}  // namespace slip
