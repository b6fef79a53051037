// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/transformer.h"

namespace slip {

struct DraftFeed;

// The step that reads some feeds, one sequence each, their rows one behind the other. Reused, it allocates nothing once
// it is as large as it gets.
class FedStep {
 public:
  // Good until the next call; the feeds' page tables are pointed to. Weight indexes are left to the caller.
  StepInput of(std::span<const DraftFeed> feeds);

 private:
  std::vector<std::int32_t> tokens_, positions_, row_begin_, logit_rows_;
  std::vector<KvView> kv_;
};

}  // namespace slip
