// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/process/stop_signal.h"
#include "distill/warmup/warmup.h"

namespace slip::cli {

struct ProgressStyle {
  bool terminal = false;  // redraw one line; else print a plain line at intervals
  bool colour = false;
  int columns = 80;
};
// The style for stderr, NO_COLOR and TERM.
ProgressStyle progress_style();

// One line of progress, without a line end. Pure.
std::string progress_text(const WarmupProgress& progress, const ProgressStyle& style);
std::string duration_text(double seconds);  // "42 s", "3:07", "1:02:07"

// Redraws one line on stderr, only if that is a terminal. An empty text removes the line.
void redraw_line(const std::string& text);

// Shows a warm-up's progress on stderr and passes Ctrl-C on to it.
class ProgressLine final : public WarmupObserver {
 public:
  explicit ProgressLine(ProgressStyle style);
  ~ProgressLine() override;
  void on_progress(const WarmupProgress& progress) override;
  void on_note(const std::string& line) override;
  bool stop_requested() override;
  void finish();  // keeps the last line on the screen

 private:
  ProgressStyle style_;
  StopSignal stop_;
  std::int64_t shown_us_ = 0;
  WarmupPhase phase_ = WarmupPhase::kAnswers;
  bool open_ = false;  // a redrawn line has no line end yet
};

}  // namespace slip::cli
