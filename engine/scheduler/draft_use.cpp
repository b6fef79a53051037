// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_use.h"

#include <algorithm>

namespace slip {

void DraftUse::add(std::uint64_t version, double saved_us, double read_us) {
  if (version != version_) n_steps_ = 0, saved_us_ = read_us_ = 0;
  version_ = version;
  n_steps_ = std::min(n_steps_ + 1, kTrialSteps);
  saved_us_ = kKeep * saved_us_ + saved_us;
  read_us_ = kKeep * read_us_ + read_us;
}

}  // namespace slip
