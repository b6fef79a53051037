// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/select.h"

#include <algorithm>

namespace slip {

void select_nodes(Proposal& proposal, std::int32_t max_nodes) {
  const auto n = static_cast<std::size_t>(std::max(max_nodes, 0));
  if (proposal.size() <= n) return;
  proposal.tokens.resize(n);
  proposal.parents.resize(n);
  proposal.path_logprob.resize(n);
  if (!proposal.q.empty()) proposal.q.resize(n);
  if (!proposal.device_q.empty()) proposal.device_q.resize(n);
}

}  // namespace slip
