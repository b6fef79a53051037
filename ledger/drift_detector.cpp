// SPDX-License-Identifier: Apache-2.0
#include "ledger/drift_detector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace slip {
namespace {

constexpr std::size_t kNewest = 16;

}  // namespace

double DriftDetector::deviation() const {
  return std::max(std::sqrt(variance_), options_.min_sd);
}

// Running mean and variance; the newest value's weight is 1/n at first and 1/memory later.
void DriftDetector::learn(double alpha) {
  n_ = std::min(n_ + 1, options_.memory_requests);
  const double weight = 1.0 / n_;
  const double away = alpha - mean_;
  mean_ += weight * away;
  variance_ = (1 - weight) * (variance_ + weight * away * away);
}

std::optional<DriftAlarm> DriftDetector::add(double alpha) {
  if (n_ < options_.warm_up_requests) {
    learn(alpha);
    return std::nullopt;
  }
  const double step = std::clamp((mean_ - alpha) / deviation(), -options_.max_step_sd, options_.max_step_sd);
  sum_ += step - options_.slack_sd;
  newest_.push_back(alpha);
  // Before the fall the sum also wanders above its minimum, so the newest requests estimate the new mean best.
  if (newest_.size() > kNewest) newest_.pop_front();
  if (sum_ <= 0) {
    sum_ = 0;
    newest_.clear();
  }
  if (sum_ <= options_.threshold_sd) {
    learn(alpha);
    return std::nullopt;
  }
  const auto n = static_cast<int>(newest_.size());
  const DriftAlarm alarm{mean_, std::accumulate(newest_.begin(), newest_.end(), 0.0) / n, n};
  *this = DriftDetector(options_);
  if (alarm.alpha_before - alarm.alpha_after < options_.min_fall) return std::nullopt;
  return alarm;
}

const char* temperature_range(double temperature) {
  if (temperature <= 0) return "0";
  if (temperature <= 0.5) return "0-0.5";
  return temperature <= 1 ? "0.5-1" : "1+";
}

std::optional<DriftEventRow> DriftMonitor::observe(const RequestRow& request) {
  const int tested = request.accepted + request.first_rejections;
  if (tested <= 0) return std::nullopt;
  const std::string range = temperature_range(request.temperature);
  const Stream stream{request.topic, request.draft, request.rule, range};
  auto found = streams_.find(stream);
  if (found == streams_.end()) {
    if (streams_.size() >= kMaxStreams) return std::nullopt;
    found = streams_.emplace(stream, DriftDetector(options_)).first;
  }
  const auto alarm = found->second.add(static_cast<double>(request.accepted) / tested);
  if (!alarm) return std::nullopt;
  std::array<char, 160> detail{};
  std::snprintf(detail.data(), detail.size(),
                "acceptance fell from %.2f to %.2f over the last %d requests (%s, temperature %s)", alarm->alpha_before,
                alarm->alpha_after, alarm->requests, request.rule.c_str(), range.c_str());
  return DriftEventRow{.at_us = request.finished_us,
                       .topic = request.topic,
                       .draft = request.draft,
                       .detail = detail.data(),
                       .version = request.last_version,
                       .alpha_before = alarm->alpha_before,
                       .alpha_after = alarm->alpha_after};
}

}  // namespace slip
