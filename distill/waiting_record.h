// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/purge_scope.h"
#include "distill/replay/replay_record.h"

namespace slip {

// The record of a finished request that waits to be scored.
struct WaitingRecord {
  ReplayRecord record;
  bool is_evidence = true;      // a client's answer, no near-copy of an earlier record, and no processed logits
  bool may_be_sampled = false;  // the learner may ask for further answers to its prompt
  std::int64_t since_us = 0;    // monotonic
};

inline bool is_in(const PurgeScope& scope, const ReplayRecord& record) {
  return scope.contains(record.request, record.name, record.tenant, record.created_us);
}

}  // namespace slip
