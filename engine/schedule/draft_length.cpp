// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule/draft_length.h"

#include <algorithm>
#include <cstddef>

namespace slip {
namespace {

constexpr double kKeepVerification = 0.98;  // half forgotten after 34 verifications
constexpr double kKeepVersion = 0.02;
constexpr double kPriorAlpha = 0.5, kPriorJudged = 2;
constexpr double kMostAlpha = 0.99;

}  // namespace

void AcceptanceEstimate::add(std::uint64_t version, std::int32_t accepted, bool rejected) {
  const double keep = version == version_ ? kKeepVerification : kKeepVersion;
  version_ = version;
  accepted_ = keep * accepted_ + accepted;
  judged_ = keep * judged_ + accepted + (rejected ? 1 : 0);
}

double AcceptanceEstimate::alpha(std::uint64_t version) const {
  const double keep = version == version_ ? 1 : kKeepVersion;
  const double alpha = (keep * accepted_ + kPriorAlpha * kPriorJudged) / (keep * judged_ + kPriorJudged);
  return std::min(alpha, kMostAlpha);
}

void choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                          std::vector<std::int32_t>& lengths) {
  lengths.assign(outlooks.size(), 0);
  if (outlooks.empty()) return;
  const auto n = static_cast<std::int32_t>(outlooks.size());
  std::vector<double> next;  // expected tokens of each sequence's next node
  for (const DraftOutlook& outlook : outlooks) next.push_back(outlook.most > 0 ? outlook.alpha : 0);
  double tokens = n;
  double best_goodput = tokens / curve.pass_us(n + prompt_rows);
  std::vector<std::size_t> nodes;  // the sequence of each, in descending order of expected tokens
  std::size_t n_best = 0;
  for (;;) {
    const auto best = static_cast<std::size_t>(std::max_element(next.begin(), next.end()) - next.begin());
    if (next[best] <= 0) break;
    tokens += next[best];
    nodes.push_back(best);
    ++lengths[best];
    next[best] = lengths[best] < outlooks[best].most ? next[best] * outlooks[best].alpha : 0;
    // Sequences of one depth share its drafting passes.
    const auto n_nodes = static_cast<std::int32_t>(nodes.size());
    const double goodput = tokens / (curve.pass_us(n + prompt_rows + n_nodes) + curve.depth_us / n * n_nodes);
    if (goodput > best_goodput) best_goodput = goodput, n_best = nodes.size();
  }
  lengths.assign(outlooks.size(), 0);
  for (std::size_t i = 0; i < n_best; ++i) ++lengths[nodes[i]];
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    if (outlooks[i].probe && outlooks[i].most > 0) lengths[i] = std::max(lengths[i], 1);
  }
}

}  // namespace slip
