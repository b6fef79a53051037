// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/data_directory_lock.h"
#include "distill/warmup/warmup.h"

namespace slip {

struct HeldoutPoint {
  std::int64_t step = 0;
  double loss = 0, alpha = 0;
};

// The history of training, saved beside the optimizer's state. Every entry has its step, so that the history fits
// whichever optimizer state survived a crash: later entries are dropped.
struct WarmupHistory {
  std::vector<HeldoutPoint> heldout;
  std::vector<std::int64_t> skipped;  // steps() at which a batch was skipped, ascending; one entry per batch
  void forget_after(std::int64_t step);
};

// Whether the held-out loss has stopped falling: the best of the last `window` measurements is less than 1 % below the
// best before them. Pure.
bool is_flat(const std::vector<HeldoutPoint>& heldout, std::size_t window);

// Returns min(n, most) different indices below `n`, evenly spaced and ascending. Pure.
std::vector<std::size_t> evenly_spaced(std::size_t n, std::size_t most);

// The work folder <out>.work, from which an interrupted run resumes:
//   run.json   the options that decide the weights; another set is refused
//   answers    replay frames
//   optimizer  the trainer's state
//   history.json
class WarmupWork {
 public:
  // Creates the folder, or opens an existing one. Error{kConflict} when another run holds it, when options differ
  // (naming the first that does), or when the output exists already; Error{kInvalidArgument} when a folder of that name
  // is no run's; `resume` and `force` as in WarmupOptions.
  explicit WarmupWork(const WarmupOptions& options);

  bool resumed() const { return resumed_; }
  std::filesystem::path answers() const { return folder_ / "answers"; }
  std::filesystem::path optimizer() const { return folder_ / "optimizer"; }
  WarmupHistory read_history() const;
  void write_history(const WarmupHistory& history) const;
  // A new folder in which the output is prepared.
  std::filesystem::path staging() const;
  // Moves staging() to `out` by one rename and, unless `keep`, removes the work folder. Files in it that no run made
  // stay.
  void deliver(const std::filesystem::path& out, bool keep) const;

 private:
  void clear(bool keep_lock) const;

  std::filesystem::path folder_;
  std::optional<DataDirectoryLock> lock_;  // excludes a second run with the same `out`
  bool resumed_ = false;
};

// The options that decide the weights, as JSON; equal text means an equal run.
std::string describe_run(const WarmupOptions& options);

}  // namespace slip
