// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/replay/replay_record.h"

namespace slip {

// The record of a finished request that waits to be scored.
struct WaitingRecord {
  ReplayRecord record;
  bool is_evidence = true;    // no near-copy of an earlier record, and no processed logits
  std::int64_t since_us = 0;  // monotonic
};

}  // namespace slip
