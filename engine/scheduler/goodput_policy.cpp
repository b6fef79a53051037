// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/goodput_policy.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace slip {
namespace {

constexpr double kKeepPromptShare = 1.0 / 8;  // weight of the latest step: a burst fills steps with prompts at once
// Maximum share of the steps' time that probes take, and what may be saved up for them if one takes no longer
constexpr double kProbeShare = 0.005, kMostProbeUs = 10'000;

}  // namespace

void GoodputPolicy::limit_step(std::span<const DeadlineLoad> loads, const StepForecast& forecast,
                               const StepCurve& /*curve*/, std::int32_t most_rows, DeadlineLimits& limits) {
  limits.prompt_rows = prompt_rows_in_time(loads, forecast, most_rows);
  mark_sequences_to_skip(loads, forecast, most_rows, limits.skipped);
}

void GoodputPolicy::add_step(double us) {
  probe_allowance_us_ = std::min(probe_allowance_us_ + kProbeShare * us, std::max(kMostProbeUs, refused_probe_us_));
}

void GoodputPolicy::choose(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                           std::vector<DraftOrder>& orders) {
  price_.curve = curve;
  const LengthChoice choice = choose_lengths(outlooks, prompt_rows);
  std::int32_t rows = prompt_rows + static_cast<std::int32_t>(lengths_.size()), n_drafted = 0;
  for (const DraftLength& length : lengths_) {
    rows += length.nodes;
    n_drafted += length.guessed ? 0 : length.nodes;
  }
  orders.assign(outlooks.size(), {});
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    DraftOrder& order = orders[i];
    order.length = lengths_[i];
    order.most = lengths_[i].nodes;
    if (order.length.guessed || order.length.nodes == 0) continue;
    order.saved_us = choice.saved_us * order.length.nodes / n_drafted;
    price_proposal(outlooks[i], rows, order);
  }
}

// Fills `lengths_`, and sets the price of a token.
LengthChoice GoodputPolicy::choose_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows) {
  const double price =
      prompt_rows > 0 ? price_beside_prompts(outlooks, prompt_rows, prompt_share_, price_.curve, lengths_) : 0;
  if (!outlooks.empty()) prompt_share_ += ((prompt_rows > 0 ? 1 : 0) - prompt_share_) * kKeepPromptShare;
  const LengthChoice choice = choose_draft_lengths(outlooks, prompt_rows, price_.curve, lengths_, price);
  price_.goodput = price > 0 ? price : choice.goodput;
  const ProbeTimes probes = add_probes(outlooks, prompt_rows, price_.curve, probe_allowance_us_, lengths_);
  probe_allowance_us_ -= probes.spent_us;
  if (probes.spent_us > 0 || probes.refused_us > 0) refused_probe_us_ = probes.refused_us;
  return choice;
}

// Tells a draft what its tokens must be worth: where to stop, and whether the best sibling could pay for its row. The
// step has `rows` rows.
void GoodputPolicy::price_proposal(const DraftOutlook& outlook, std::int32_t rows, DraftOrder& order) const {
  if (outlook.rates == nullptr || (options_.tree_width == 1 && !options_.stop_early)) return;
  order.wants_probability = true;
  if (outlook.rates->most_of_second() > price_.goodput * price_.curve.least_row_us(rows))
    order.width = std::min(options_.tree_width, outlook.width);
  if (!options_.stop_early) return;
  order.stop = {outlook.rates, outlook.deeper(), price_.goodput * price_.curve.row_us(rows),
                price_.goodput * price_.curve.drafting.pass_us};
  order.most = outlook.most;
}

void GoodputPolicy::select(std::vector<ProposedNode>& nodes, std::int32_t rows, std::int32_t room) {
  nodes.resize(count_paying(nodes, price_, rows, room));
}

}  // namespace slip
