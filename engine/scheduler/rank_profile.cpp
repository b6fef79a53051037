// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/rank_profile.h"

#include <cstddef>

#include "engine/scheduler/draft_length.h"
#include "engine/speculative/untested_choice.h"

namespace slip {

void RankProfile::add(std::uint64_t version, std::int32_t rank, bool was_right) {
  if (version != version_) {
    for (HitRate& rate : rates_) rate = scaled(rate, kKeepVersion);
    version_ = version;
  }
  const auto at = static_cast<std::size_t>(rank);
  rates_[at].add(was_right);
  if (!was_right && at + 1 < rates_.size()) forget_untested(rates_[at + 1]);
}

RankRates RankProfile::rates(std::uint64_t version) const {
  RankRates found{};
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    found[rank] = scaled(rates_[rank], version == version_ ? 1 : kKeepVersion).rate(kPriorRankRates[rank]);
  }
  return found;
}

}  // namespace slip
