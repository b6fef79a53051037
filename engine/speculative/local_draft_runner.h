// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/speculative/draft_runner.h"
#include "engine/speculative/slice_step.h"

namespace slip {

// Drafts of one shape and dtype on the CPU: one cache, one workspace, and one forward pass for all sequences, whatever
// weights each uses.
class LocalDraftRunner final : public DraftRunner {
 public:
  // Error{kTooLarge} when there is no memory for the cache.
  LocalDraftRunner(const ModelWeights& first, Size size, kernels::ThreadPool& pool);

  bool fits(const DraftVersion& version) const override;
  std::shared_ptr<const void> admit(const std::shared_ptr<const DraftVersion>& version) override { return version; }
  const ModelConfig& config() const override { return transformer_.config(); }
  PagePool& cache() override { return cache_; }
  std::int64_t n_passes() const override { return n_passes_; }
  void read(std::span<const DraftSlice> slices) override { run(slices); }
  void propose(std::span<DraftChain> chains) override { grow_by_logits(chains); }

 private:
  bool reads_branches() const override { return true; }
  void run(std::span<const DraftSlice> slices) override;
  std::span<const float> logits(std::size_t i) const override;

  Dtype dtype_;
  Transformer transformer_;
  PagePool cache_;
  Workspace workspace_;
  std::unique_ptr<float[]> logits_;  // [max_logit_rows, vocab]
  SliceStep step_;
  std::vector<std::uint16_t> weight_index_;
  std::vector<const ModelWeights*> members_;
  std::int64_t n_passes_ = 0;
};

}  // namespace slip
