// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/stop_signal.h"
#include "distill/warmup/warmup.h"

namespace slip::cli {

struct ProgressStyle {
  bool terminal = false;  // one line, redrawn; else a plain line now and then
  bool colour = false;
  int columns = 80;
};
// From stderr, NO_COLOR and TERM.
ProgressStyle progress_style();

// One line of progress, without a line end. Pure.
std::string progress_text(const WarmupProgress& progress, const ProgressStyle& style);
std::string duration_text(double seconds);  // "42 s", "3:07", "1:02:07"

// Shows a warm-up on stderr and passes Ctrl-C on to it.
class ProgressLine final : public WarmupObserver {
 public:
  explicit ProgressLine(ProgressStyle style);
  ~ProgressLine() override;
  void on_progress(const WarmupProgress& progress) override;
  void on_note(const std::string& line) override;
  bool stop_requested() override;
  void finish();  // leaves the last line standing

 private:
  ProgressStyle style_;
  StopSignal stop_;
  std::int64_t shown_us_ = 0;
  WarmupPhase phase_ = WarmupPhase::kAnswers;
  bool open_ = false;  // a redrawn line waits for its end
};

}  // namespace slip::cli
