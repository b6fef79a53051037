// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/decode_time.h"

#include <algorithm>

namespace slip {
namespace {

constexpr double kTimeRate = 1.0 / 32;  // weight of one step in the smoothed time per token

}  // namespace

double accepted_length(int k, double alpha) {
  double length = 1, power = 1;
  for (int depth = 1; depth <= k; ++depth) {
    power *= alpha;
    length += power;
  }
  return length;
}

DecodeTime DecodeTime::of_chain(int k) {
  DecodeTime time;
  for (std::size_t i = 0; i < kPoints; ++i) time.per_token[i] = 1 / accepted_length(k, static_cast<double>(i) / 10);
  return time;
}

double DecodeTime::saved(double alpha, double gain) const {
  const auto at = [&](double rate) {
    const double x = std::clamp(rate, 0.0, 1.0) * (kPoints - 1);
    const auto i = std::min(static_cast<std::size_t>(x), kPoints - 2);
    return per_token[i] + (x - static_cast<double>(i)) * (per_token[i + 1] - per_token[i]);
  };
  const double after = at(alpha + gain);
  const double faster = after > 0 ? sequences * (at(alpha) / after - 1) : 0;
  return share * (1 - 1 / (1 + std::max(faster, 0.0)));
}

void DecodeTimeEstimate::add(const StepCurve& curve, std::span<const DraftOutlook> outlooks, std::int32_t k) {
  outlooks_.assign(outlooks.begin(), outlooks.end());
  DraftOutlook& replaced = outlooks_[n_ % outlooks_.size()];
  const double rate = std::max(kTimeRate, 1.0 / static_cast<double>(++n_));
  for (std::size_t i = 0; i < DecodeTime::kPoints; ++i) {
    replaced.most = k;
    replaced.alpha = static_cast<double>(i) / (DecodeTime::kPoints - 1);
    replaced.alpha_deeper.reset();
    const double goodput = choose_draft_lengths(outlooks_, 0, curve, lengths_).goodput;
    time_.per_token[i] += rate * (1 / goodput - time_.per_token[i]);
  }
  time_.sequences += rate * (static_cast<double>(outlooks.size()) - time_.sequences);
}

void SharedDecodeTime::set(const DecodeTime& time) noexcept {
  for (std::size_t i = 0; i < DecodeTime::kPoints; ++i) {
    per_token_[i].store(time.per_token[i], std::memory_order_relaxed);
  }
  sequences_.store(time.sequences, std::memory_order_relaxed);
  share_.store(time.share, std::memory_order_relaxed);
}

DecodeTime SharedDecodeTime::get() const noexcept {
  DecodeTime time;
  for (std::size_t i = 0; i < DecodeTime::kPoints; ++i) {
    time.per_token[i] = per_token_[i].load(std::memory_order_relaxed);
  }
  time.sequences = sequences_.load(std::memory_order_relaxed);
  time.share = share_.load(std::memory_order_relaxed);
  return time;
}

}  // namespace slip
