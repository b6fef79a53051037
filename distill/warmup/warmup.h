// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "distill/warmup/warmup_options.h"

namespace slip {

enum class WarmupPhase : std::uint8_t { kAnswers, kTraining };

struct WarmupProgress {
  WarmupPhase phase = WarmupPhase::kAnswers;
  std::int64_t done = 0, total = 0;            // answers, or optimizer steps; total 0: until flat
  double loss = 0, alpha = 0;                  // running means over the last steps
  double heldout_loss = 0, heldout_alpha = 0;  // 0: not measured yet
  double tokens_per_s = 0;                     // written, or trained on
  double seconds_left = -1;                    // −1: unknown
};

// Called on the job's thread, several times a second.
class WarmupObserver {
 public:
  virtual ~WarmupObserver() = default;
  virtual void on_progress(const WarmupProgress& progress) = 0;
  virtual void on_note(const std::string& line) = 0;
  virtual bool stop_requested() = 0;
};

struct WarmupResult {
  std::int64_t steps = 0;
  std::int64_t answers = 0, heldout_answers = 0;
  double loss = 0, alpha = 0;                  // over the last steps
  double heldout_loss = 0, heldout_alpha = 0;  // alpha: share of rows where draft and target agree on the likeliest
};

// Offline distillation: reads prompts, has the target answer them (or say what it thinks of given answers), trains the
// draft on the target's distributions, and writes a Hugging Face folder with meta.json to `out` by one rename. What is
// done so far lies in <out>.work: a later call with the same options goes on from there, to the same weights.
// Error{kCancelled} when the observer asks to stop (everything is saved then); Error{kInvalidArgument | kNotFound |
// kConflict | kDataLoss | kIo} otherwise.
WarmupResult run_warmup(const WarmupOptions& options, WarmupObserver& observer);

// <out>.work
std::filesystem::path warmup_work_folder(const std::filesystem::path& out);

}  // namespace slip
