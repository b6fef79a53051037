// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "engine/speculative/choice_rates.h"
#include "engine/speculative/lookup/past_answers.h"

namespace slip {

// How often a draft's first, second … choice for one place was right, given that the choices before it were wrong. The
// probabilities that the draft gave them do not count. A new version keeps 2 % of the evidence, and a choice that is no
// longer proposed loses its own slowly (forget_untested()). Threads: one owner.
class RankProfile {
 public:
  void add(std::uint64_t version, std::int32_t rank, bool was_right);
  RankRates rates(std::uint64_t version) const;

 private:
  std::uint64_t version_ = 0;
  std::array<HitRate, kMaxTreeWidth> rates_;
};

}  // namespace slip
