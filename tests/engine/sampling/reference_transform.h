// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/sampling/distribution.h"

namespace slip::testing {

// Mistakes in a parameter that real implementations have made: planted to check that the tests detect them.
enum class Misreading {
  kNone,
  kRepetitionSparesThePrompt,
  kRepetitionDividesAll,  // negative logits too, which makes them likelier
  kPresenceCountsThePrompt,
  kFrequencyCountsOnce,
  kPenaltiesLagByOne,  // the token right before the row is not seen
  kBiasAfterTemperature,
  kMinPBeforeTemperature,
  kMinPOfMass,  // an absolute probability instead of a share of the likeliest
  kMinTokensOffByOne,
};

// The transform once more, by the definitions and in float64: bias, min_tokens, penalties, temperature, min-p, top-k,
// top-p, in this order.
class ReferenceTransform {
 public:
  ReferenceTransform(const SamplingParams& params, Misreading misreading) : params_(params), misread_(misreading) {}

  Distribution operator()(const std::vector<float>& logits, const RowContext& context) {
    values_.assign(logits.begin(), logits.end());
    if (!is(Misreading::kBiasAfterTemperature)) add_bias();
    forbid_ends(context);
    penalise(context);
    order_.resize(values_.size());
    std::iota(order_.begin(), order_.end(), 0);
    rank();
    if (params_.temperature == 0) {
      order_.resize(1);
    } else {
      weigh();
      keep();
    }
    return normalised();
  }

 private:
  bool is(Misreading misreading) const { return misread_ == misreading; }
  double& at(std::int32_t id) { return values_[static_cast<std::size_t>(id)]; }

  // Likeliest first, of equals the lowest id.
  void rank() {
    std::sort(order_.begin(), order_.end(),
              [&](std::int32_t a, std::int32_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  }

  void add_bias() {
    for (const LogitBias& one : params_.logit_bias) at(one.id) += one.bias;
  }

  void forbid_ends(const RowContext& context) {
    auto n_answer = static_cast<std::int32_t>(context.path.size()) - context.prompt_tokens;
    if (is(Misreading::kMinTokensOffByOne)) ++n_answer;
    if (n_answer >= params_.min_tokens) return;
    for (const std::int32_t id : context.end_ids) at(id) = -std::numeric_limits<double>::infinity();
  }

  void penalise(const RowContext& context) {
    auto path = context.path;
    if (is(Misreading::kPenaltiesLagByOne)) path = path.first(path.size() - 1);
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(values_.size()); ++id) {
      const auto prompt = path.first(std::min(path.size(), static_cast<std::size_t>(context.prompt_tokens)));
      const auto answer = path.subspan(prompt.size());
      const auto in_prompt = std::count(prompt.begin(), prompt.end(), id);
      const auto in_answer = std::count(answer.begin(), answer.end(), id);
      if (in_answer > 0 || (in_prompt > 0 && !is(Misreading::kRepetitionSparesThePrompt))) {
        const bool divides = at(id) > 0 || is(Misreading::kRepetitionDividesAll);
        at(id) = divides ? at(id) / params_.repetition_penalty : at(id) * params_.repetition_penalty;
      }
      const auto counted = is(Misreading::kFrequencyCountsOnce) ? std::min<std::ptrdiff_t>(in_answer, 1) : in_answer;
      at(id) -= params_.frequency_penalty * static_cast<double>(counted);
      const bool present = in_answer > 0 || (in_prompt > 0 && is(Misreading::kPresenceCountsThePrompt));
      if (present) at(id) -= params_.presence_penalty;
    }
  }

  void weigh() {
    const double largest = at(order_.front());
    const double limit = params_.min_p;
    const auto unlikely = [&](double difference) { return std::exp(difference) < limit; };
    if (is(Misreading::kMinPBeforeTemperature)) {
      std::erase_if(order_, [&](int id) { return unlikely(at(id) - largest); });
    }
    for (double& value : values_) value = (value - largest) / params_.temperature;
    if (is(Misreading::kBiasAfterTemperature)) add_bias();
    double total = 0;
    for (double& value : values_) total += value = std::exp(value);
    rank();
    if (is(Misreading::kMinPBeforeTemperature)) return;
    const double share_of = is(Misreading::kMinPOfMass) ? total : at(order_.front());
    std::erase_if(order_, [&](int id) { return at(id) < limit * share_of && id != order_.front(); });
  }

  void keep() {
    if (params_.top_k > 0 && static_cast<std::size_t>(params_.top_k) < order_.size()) {
      order_.resize(static_cast<std::size_t>(params_.top_k));
    }
    double mass = 0, reached = 0;
    for (const int id : order_) mass += at(id);
    std::size_t n_kept = 0;
    while (n_kept < order_.size() && (n_kept == 0 || reached < params_.top_p * mass)) reached += at(order_[n_kept++]);
    order_.resize(n_kept);
  }

  Distribution normalised() {
    std::erase_if(order_, [&](int id) { return params_.temperature > 0 && at(id) == 0; });
    std::sort(order_.begin(), order_.end());
    Distribution out;
    double total = 0;
    for (const int id : order_) total += at(id);
    for (const int id : order_) {
      out.ids.push_back(id);
      out.probabilities.push_back(order_.size() == 1 ? 1 : at(id) / total);
    }
    return out;
  }

  const SamplingParams& params_;
  Misreading misread_;
  std::vector<double> values_;
  std::vector<std::int32_t> order_;
};

inline Distribution reference_transform(const std::vector<float>& logits, const SamplingParams& params,
                                        const RowContext& context = {}, Misreading misreading = Misreading::kNone) {
  return ReferenceTransform(params, misreading)(logits, context);
}

}  // namespace slip::testing
