// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/adapt/adapt_replay.h"

namespace slip::bench {

// The common settings of the recorded arms.
struct ArmSetting {
  std::filesystem::path draft;       // the base draft's folder
  std::vector<ReplayRecord> stream;  // one draft's requests in the order they finished
  std::vector<ReplayRecord> dev;     // never streamed; empty: the final score uses the stream's last 100
  SampledAnswers sampled;            // to the stream's prompts; ungated and gated learn from them too
  int k = 3;
  std::size_t look_every = 8;  // requests between two scores on `dev`
  OnlineSetting ours;          // for ungated and offline-100
};

struct ArmLook {
  std::size_t requests = 0;  // received so far
  double alpha = 0;          // on the dev records
};

struct ArmRun {
  std::vector<AcceptanceScore> served;  // of each request, by the draft that served when it arrived
  std::vector<ArmLook> looks;           // ascending, the base draft first; empty without dev records
  double final_alpha = 0;
  std::int64_t optimizer_steps = 0, publishes = 0, rollbacks = 0;
  double training_seconds = 0;
  std::string chosen;  // paper-tuned: the best rate and interval
};

// Runs an arm without the target:
//   none         the base draft throughout
//   paper        OSD (Liu et al., 2023, arXiv 2310.07177): every 8 requests one AdamW step at 1e-4 on their
//                rejected positions; the requests are then dropped
//   paper-tuned  the best final score of OSD over rates 1e-5 … 3e-3 and intervals 1 and 8
//   offline-100  trained on the whole stream until the dev score stops rising; the best epoch counts
//   ungated      our trainer; each export serves at once
//   gated        the service's learner, with its own trainer settings, canary and rollback; of `ours` only the steps
// Error{kInvalidArgument} for another name. Deterministic for a seed, except training_seconds.
ArmRun run_recorded_arm(const std::string& name, const ArmSetting& setting, std::uint64_t seed);
const std::vector<std::string>& recorded_arms();

}  // namespace slip::bench
