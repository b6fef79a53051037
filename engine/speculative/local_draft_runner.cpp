// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/local_draft_runner.h"

#include "common/error.h"

namespace slip {

LocalDraftRunner::LocalDraftRunner(const ModelWeights& first, Size size, kernels::ThreadPool& pool)
    : dtype_(first.dtype),
      transformer_(first.config, pool),
      cache_(first.config, first.dtype, size.n_pages),
      workspace_(first.config, size.max_rows, size.max_logit_rows),
      logits_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(size.max_logit_rows) *
                                                      static_cast<std::size_t>(first.config.vocab_size))) {}

bool LocalDraftRunner::fits(const DraftVersion& version) const {
  return version.weights->dtype == dtype_ && version.weights->config.same_shape(config());
}

void LocalDraftRunner::run(std::span<const DraftSlice> slices) {
  weight_index_.clear();
  members_.clear();
  for (const DraftSlice& slice : slices) {
    if (members_.empty() || members_.back() != slice.weights) members_.push_back(slice.weights);
    weight_index_.push_back(static_cast<std::uint16_t>(members_.size() - 1));
  }
  StepInput input = step_.of(slices);
  input.weights = weight_index_;
  StepOutput output;
  output.logits =
      TensorView::contiguous(logits_.get(), {static_cast<std::int64_t>(input.logit_rows.size()), config().vocab_size});
  transformer_.forward(members_, input, cache_, workspace_, output);
  ++n_passes_;
}

std::span<const float> LocalDraftRunner::logits(std::size_t i) const {
  const auto vocab = static_cast<std::size_t>(config().vocab_size);
  return {logits_.get() + i * vocab, vocab};
}

}  // namespace slip
