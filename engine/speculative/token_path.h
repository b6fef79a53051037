// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculative/proposal.h"
#include "engine/speculative/proposer.h"

namespace slip {

// Writes the tokens up to `node`: the committed ones, then the path from the root to the node (−1: the root itself).
// Input of transforms that count tokens, for chains and trees alike.
inline void write_token_path(std::span<const std::int32_t> committed, const Proposal& proposal, std::int32_t node,
                             std::vector<std::int32_t>& out) {
  // An answer grows every step: reserves more than needed, or every step would allocate.
  const std::size_t most = committed.size() + proposal.size();
  if (out.capacity() < most) out.reserve(std::max<std::size_t>(4096, 2 * most));
  out.assign(committed.begin(), committed.end());
  for (; node >= 0; node = proposal.parents[static_cast<std::size_t>(node)]) {
    out.push_back(proposal.tokens[static_cast<std::size_t>(node)]);
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(committed.size()), out.end());
}

// The context of the row after `node`. Writes the tokens into `path` only if a logits processor looks at them.
inline RowContext context_after(const SequenceRef& sequence, const Proposal& proposal, std::int32_t node,
                                std::vector<std::int32_t>& path) {
  path.clear();
  if (sequence.sampling->processes_logits()) write_token_path(sequence.tokens, proposal, node, path);
  return sequence.row_context(path);
}

}  // namespace slip
