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
  std::int64_t done = 0, total = 0;            // answers or optimizer steps; total 0: until the loss is flat
  double loss = 0, alpha = 0;                  // running means over the last steps
  double heldout_loss = 0, heldout_alpha = 0;  // 0: not measured yet
  double tokens_per_s = 0;                     // tokens generated or trained on
  double seconds_left = -1;                    // −1: unknown
};

// Observes a warm-up and may stop it. Called on the job's thread, several times a second.
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
  double heldout_loss = 0, heldout_alpha = 0;  // alpha: share of rows where draft and target have the same argmax
};

// Offline distillation: reads prompts, lets the target answer them (or score given answers), trains the draft on the
// target's distributions, and writes a Hugging Face folder with meta.json to `out` by one rename. Progress is kept in
// <out>.work: a later call with the same options resumes from there and ends with the same weights. Error{kCancelled}
// when the observer asks to stop (all progress is then saved); Error{kInvalidArgument | kNotFound | kConflict |
// kDataLoss | kIo} otherwise.
WarmupResult run_warmup(const WarmupOptions& options, WarmupObserver& observer);

// <out>.work
std::filesystem::path warmup_work_folder(const std::filesystem::path& out);

}  // namespace slip
