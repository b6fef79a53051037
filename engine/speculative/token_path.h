// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculative/proposal.h"

namespace slip {

// The tokens that the row after `node` has behind it: the committed ones, then the way from the root to the node
// (−1: the root itself). What transforms that count tokens look at, for chains and trees alike.
inline void write_token_path(std::span<const std::int32_t> committed, const Proposal& proposal, std::int32_t node,
                             std::vector<std::int32_t>& out) {
  // An answer grows by a token or so a step: room for many more, or every step would allocate.
  const std::size_t most = committed.size() + proposal.size();
  if (out.capacity() < most) out.reserve(std::max<std::size_t>(4096, 2 * most));
  out.assign(committed.begin(), committed.end());
  for (; node >= 0; node = proposal.parents[static_cast<std::size_t>(node)]) {
    out.push_back(proposal.tokens[static_cast<std::size_t>(node)]);
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(committed.size()), out.end());
}

}  // namespace slip
