// SPDX-License-Identifier: Apache-2.0
#include "engine/models/step_check.h"

#include <bit>

#include "common/error.h"

namespace slip {
namespace {

void check_rows(const StepInput& input, const ModelConfig& config, const StepBounds& bounds) {
  const auto n_rows = static_cast<std::int32_t>(input.tokens.size());
  SLIP_CHECK(input.positions.size() == input.tokens.size(), "a position for each token");
  SLIP_CHECK(n_rows <= bounds.max_rows, "the step has more rows than the workspace");
  SLIP_CHECK(static_cast<std::int32_t>(input.logit_rows.size()) <= bounds.max_logit_rows,
             "the step wants more logits than the workspace has rows for");
  for (std::size_t row = 0; row < input.tokens.size(); ++row) {
    SLIP_CHECK(input.tokens[row] >= 0 && input.tokens[row] < config.vocab_size, "a token outside the vocabulary");
    SLIP_CHECK(input.positions[row] >= 0 && input.positions[row] < config.max_positions,
               "a position outside the model's context");
  }
  for (std::size_t i = 0; i < input.logit_rows.size(); ++i) {
    SLIP_CHECK(input.logit_rows[i] > (i == 0 ? -1 : input.logit_rows[i - 1]) && input.logit_rows[i] < n_rows,
               "logit rows ascend and lie within the step");
  }
}

void check_visible(const KvView& kv) {
  std::int32_t end = 0;
  for (const PageRange& range : kv.visible) {
    SLIP_CHECK(range.begin >= end && range.end >= range.begin && range.end <= kv.n_cached,
               "visible ranges ascend, are disjoint and lie within the cached slots");
    end = range.end;
  }
}

}  // namespace

void check_step(const StepInput& input, const ModelConfig& config, const StepBounds& bounds) {
  check_rows(input, config, bounds);
  const std::size_t n_sequences = input.kv.size();
  SLIP_CHECK(input.row_begin.size() == n_sequences + 1 && input.row_begin.front() == 0 &&
                 input.row_begin.back() == static_cast<std::int32_t>(input.tokens.size()),
             "row borders cover the step");
  SLIP_CHECK(input.weights.empty() || input.weights.size() == n_sequences, "a weight index for each sequence");
  SLIP_CHECK(input.ancestors.empty() ||
                 input.ancestors.size() == input.tokens.size() * static_cast<std::size_t>(input.ancestor_words),
             "ancestor words for each row");
  for (std::size_t s = 0; s < n_sequences; ++s) {
    const KvView& kv = input.kv[s];
    const std::int32_t n_rows = input.row_begin[s + 1] - input.row_begin[s];
    SLIP_CHECK(n_rows >= 0, "row borders ascend");
    const std::int32_t n_slots = kv.n_ahead + n_rows;
    SLIP_CHECK(kv.n_ahead == 0 || !input.ancestors.empty(), "rows behind slots that are not committed have ancestors");
    SLIP_CHECK(input.ancestors.empty() || n_slots <= 64 * input.ancestor_words, "an ancestor bit for each row");
    SLIP_CHECK(kv.pages != nullptr && kv.n_cached + n_slots <= kv.pages->capacity_slots(), "no room was reserved");
    check_visible(kv);
  }
}

const TensorView* tap_of(const TapSet& wanted, std::span<const TensorView> taps, std::int32_t layer) {
  if (layer >= 64 || ((wanted.layers >> layer) & 1) == 0) return nullptr;
  const std::uint64_t before = wanted.layers & ((std::uint64_t{1} << layer) - 1);
  const auto index = static_cast<std::size_t>(std::popcount(before));
  SLIP_CHECK(index < taps.size(), "a view for each wanted tap");
  return &taps[index];
}

}  // namespace slip
