// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/clock.h"

namespace slip::cli {
namespace {

constexpr std::int64_t kPlainEveryUs = 5'000'000;
constexpr int kBarCells = 24;

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string grouped(double value) {
  std::string digits = formatted("%.0f", std::max(0.0, value));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string bar(double share, const ProgressStyle& style) {
  const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarCells));
  std::string cells;
  for (int i = 0; i < kBarCells; ++i) cells += i < full ? "█" : "░";
  return style.colour ? "\x1b[36m" + cells + "\x1b[0m" : cells;
}

}  // namespace

void redraw_line(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
}

ProgressStyle progress_style() {
  ProgressStyle style;
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool dumb = term == nullptr || std::string(term) == "dumb";
  style.terminal = ::isatty(STDERR_FILENO) == 1 && !dumb;
  style.colour = style.terminal && (no_color == nullptr || *no_color == '\0');
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
  return style;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  char text[64];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

std::string progress_text(const WarmupProgress& progress, const ProgressStyle& style) {
  const bool training = progress.phase == WarmupPhase::kTraining;
  std::string text = training ? "training  " : "answers   ";
  if (progress.total > 0) {
    const double share = static_cast<double>(progress.done) / static_cast<double>(progress.total);
    if (style.terminal && style.columns >= 100) text += bar(share, style) + " ";
    text += formatted("%3.0f %%", 100 * share) + "  ";
  }
  text += (training ? "step " : "") + std::to_string(progress.done);
  text += progress.total > 0 ? "/" + std::to_string(progress.total) : " (until flat)";
  if (training) {
    text += "  loss " + formatted("%.3f", progress.loss) + "  α " + formatted("%.3f", progress.alpha);
    if (progress.heldout_loss > 0) {
      text +=
          "  held out " + formatted("%.3f", progress.heldout_loss) + " / " + formatted("%.3f", progress.heldout_alpha);
    }
  }
  text += "  " + grouped(progress.tokens_per_s) + " tokens/s";
  if (progress.seconds_left >= 0) text += "  " + duration_text(progress.seconds_left) + " left";
  return text;
}

ProgressLine::ProgressLine(ProgressStyle style) : style_(style) {}

ProgressLine::~ProgressLine() {
  finish();
}

void ProgressLine::on_progress(const WarmupProgress& progress) {
  const std::int64_t now = monotonic_us();
  const bool complete = progress.total > 0 && progress.done == progress.total;
  const bool due = style_.terminal || progress.phase != phase_ || complete || now - shown_us_ >= kPlainEveryUs;
  if (!due) return;
  if (progress.phase != phase_) finish();
  shown_us_ = now;
  phase_ = progress.phase;
  const std::string text = progress_text(progress, style_);
  if (style_.terminal) {
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  std::fflush(stderr);
  open_ = style_.terminal;
}

void ProgressLine::on_note(const std::string& line) {
  finish();
  std::fprintf(stderr, "%s\n", line.c_str());
}

bool ProgressLine::stop_requested() {
  return stop_.arrived();
}

void ProgressLine::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace slip::cli
