// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip {

// The normal distribution of a gain in acceptance rate that was measured or is to come.
struct ExpectedGain {
  double mean = 0, deviation = 0;
  bool operator==(const ExpectedGain&) const = default;
};

}  // namespace slip
