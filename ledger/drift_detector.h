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

// The options of drift detection, in standard deviations of the stream, so that noisy topics cause no false alarms.
// With these values a stationary stream alarms about once in 40,000 requests. A fall by one standard deviation is
// detected after about 26 requests.
struct DriftOptions {
  double slack_sd = 0.25;     // falls smaller than this are not drift
  double threshold_sd = 20;   // sum that raises the alarm
  double max_step_sd = 3;     // limit per request: one bad answer is not drift
  double min_sd = 0.02;       // lower bound of the deviation, for constant streams
  double min_fall = 0.03;     // in α; smaller falls raise no alarm
  int warm_up_requests = 30;  // before the mean is reliable
  int memory_requests = 200;  // the mean forgets, so that improvement by learning raises no alarm
};

struct DriftAlarm {
  double alpha_before = 0, alpha_after = 0;
  int requests = 0;  // alpha_after is the mean over this number of newest requests
};

// The Page–Hinkley test (Page 1954; Hinkley 1971) for a fall of the mean of a stream of per-request acceptance rates.
// It compares the sum of (mean − x − slack) with its running minimum, and restarts after an alarm. Threads: one owner.
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
  std::deque<double> newest_;  // the last values since that minimum
};

// α depends on rule and temperature, so only streams with equal rule and temperature range are compared.
const char* temperature_range(double temperature);  // "0", "0-0.5", "0.5-1" or "1+"; upper bounds belong to the range

// One detector per (topic, draft, rule, temperature range).
class DriftMonitor {
 public:
  explicit DriftMonitor(DriftOptions options = {}) : options_(options) {}
  // The event to record if `request` raises an alarm. Requests without a verified draft token are ignored.
  std::optional<DriftEventRow> observe(const RequestRow& request);

 private:
  using Stream = std::tuple<std::string, std::string, std::string, std::string>;
  static constexpr std::size_t kMaxStreams = 4096;
  DriftOptions options_;
  std::map<Stream, DriftDetector> streams_;
};

}  // namespace slip
