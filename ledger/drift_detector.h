// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "ledger/rows.h"

namespace slip {

// Counted in standard deviations of the stream itself, so that noisy topics do not cry wolf. With these values a
// stationary stream alarms about once in 40,000 requests, and a fall by one standard deviation takes about 26 to see.
struct DriftOptions {
  double slack_sd = 0.25;     // falls smaller than this are not drift
  double threshold_sd = 20;   // sum that raises the alarm
  double max_step_sd = 3;     // what one request may add: a single hopeless answer is no drift
  double min_sd = 0.02;       // a constant stream has no deviation to count in
  double min_fall = 0.03;     // in α; less is not worth an event
  int warm_up_requests = 30;  // before the mean means something
  int memory_requests = 200;  // the mean forgets: learning moves it up, and that is no alarm
};

struct DriftAlarm {
  double alpha_before = 0, alpha_after = 0;
  int requests = 0;  // the newest ones that alpha_after is the mean of
};

// Page–Hinkley test (Page 1954; Hinkley 1971) for a fall in the mean of one stream of per-request acceptance: the sum
// of (mean − x − slack) above its running minimum. After an alarm it starts afresh. Pure; one thread.
class DriftDetector {
 public:
  explicit DriftDetector(DriftOptions options = {}) : options_(options) {}
  std::optional<DriftAlarm> add(double alpha);

 private:
  void learn(double alpha);
  double deviation() const;

  DriftOptions options_;
  int n_ = 0;
  double mean_ = 0, variance_ = 0;
  double sum_ = 0;             // above its minimum
  std::deque<double> newest_;  // since that minimum, the last few
};

// α depends on the rule and on the temperature, so streams are only comparable within one of each.
const char* temperature_range(double temperature);  // "0", "0-0.5", "0.5-1" or "1+"; upper bounds belong to the range

// One detector per (topic, draft, rule, temperature range).
class DriftMonitor {
 public:
  explicit DriftMonitor(DriftOptions options = {}) : options_(options) {}
  // The event to record when `request` completes an alarm. Requests without a verdict on any draft token say nothing.
  std::optional<DriftEventRow> observe(const RequestRow& request);

 private:
  using Stream = std::tuple<std::string, std::string, std::string, std::string>;
  static constexpr std::size_t kMaxStreams = 4096;
  DriftOptions options_;
  std::map<Stream, DriftDetector> streams_;
};

}  // namespace slip
