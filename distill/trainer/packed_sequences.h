// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace slip {

// Rows of several sequences, one after the other without padding. Outputs are wanted for the last rows of each
// sequence.
struct PackedSequences {
  std::vector<std::int64_t> tokens;   // [n_row]
  std::vector<std::int64_t> lengths;  // [n_seq] rows of each sequence
  std::vector<std::int64_t> wanted;   // [n_seq] number of last rows whose outputs are wanted
};

}  // namespace slip
