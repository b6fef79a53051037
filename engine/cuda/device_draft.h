// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/device_transformer.h"
#include "engine/cuda/logits_processor_tables.h"
#include "engine/sampling/distribution.h"
#include "engine/speculative/draft_runner.h"
#include "engine/speculative/slice_step.h"

namespace slip {

// One sequence's part of a draft loop.
struct DeviceDraftChain {
  int weight_slot = 0;         // where its draft's weights are
  PageTable* pages = nullptr;  // of the draft's cache, with room for all that is read
  std::int32_t n_cached = 0;
  std::span<const std::int32_t> tokens;  // committed ones it has not read, at least the last: at positions n_cached …
  std::int32_t depth = 0;                // so many tokens are drawn
  kernels::cuda::Transform transform;
  kernels::cuda::DrawRule rule = kernels::cuda::DrawRule::kBest;
  RandomAddress first;                      // of the first token drawn; that of depth d has output_index + d
  const SequenceRef* processors = nullptr;  // whose request has logits processors; null: none
};

// Drafts of one shape on a device: the weights of each version in a weight slot of its own, one cache, and the loop
// that draws a chain of tokens for each of several sequences, whichever weights it uses (pass, logits processors,
// distribution, draw, and the token drawn is what the next pass reads), as one captured graph, which goes on with other
// weight slots without being captured again. Only tokens and their distributions come back. Threads: those of the
// queue.
class DeviceDraft {
 public:
  struct Size {
    std::int32_t n_pages = 0;
    std::int32_t max_chains = 0;     // sequences of one loop
    std::int32_t max_depth = 0;      // tokens it draws for each
    std::int32_t max_rows_read = 0;  // tokens that a loop's first pass, or one read(), takes in all
  };
  // With one weight slot, whose weights are to be loaded before the first pass. Error{kTooLarge}.
  DeviceDraft(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape, const Size& size);

  bool fits(const ModelWeights& weights) const { return weights_.fits(weights); }
  // As DeviceWeights has them.
  int add_slot() { return weights_.add_slot(); }
  void load(const DeviceImage& image, int weight_slot) { weights_.load(image, weight_slot); }
  const ModelConfig& config() const { return transformer_.config(); }
  PagePool& cache() { return cache_; }

  // Caches what `slices` hold, read with the weights of `weight_slot`; nothing comes back. One weight slot at a time: a
  // product then reads its weights once for up to 64 rows, and once for every eight where weight slots share a pass.
  void read(int weight_slot, std::span<const DraftSlice> slices);
  // The same, slice i with the weights of weight_slots[i]; the logits [n, vocab] of the slices that want them come to
  // the host.
  void score(std::span<const std::uint16_t> weight_slots, std::span<const DraftSlice> slices, std::span<float> logits);
  // REQUIRES: chains by falling depth, each of 1 … max_depth; no position beyond the model's context.
  void draw(std::span<const DeviceDraftChain> chains);

  // Of the last draw(): chain i's token at a depth, its log probability under its distribution, and whether the draft's
  // numbers were finite there; if not, the tokens from there on mean nothing.
  std::int32_t token(std::size_t chain, std::int32_t depth) const { return drawn_tokens_[at(chain, depth)]; }
  float logprob(std::size_t chain, std::int32_t depth) const { return drawn_logprobs_[at(chain, depth)]; }
  bool is_finite(std::size_t chain, std::int32_t depth) const {
    return drawn_distributions_[at(chain, depth)].state == kernels::cuda::DistributionState::kFine;
  }
  // The distribution itself, number for number that which the token was drawn from: copies a row of logits.
  void distribution(std::size_t chain, std::int32_t depth, Distribution& out);
  // The same where it stands: good until the next draw().
  DeviceDistribution device_distribution(std::size_t chain, std::int32_t depth) const;

 private:
  struct LoopShape {
    PassShape first, later;
    std::int32_t depth = 0, n_chains = 0;  // chains: filled up where it is captured
    bool processors = false;               // of logits, before distributions are made of them
    auto operator<=>(const LoopShape&) const = default;
  };
  // What draws read, as it stands in device memory.
  struct DrawTables {
    TablePlace<kernels::cuda::Transform> transforms;  // [n_rows]
    TablePlace<kernels::cuda::DrawRule> rules;        // [n_rows]
    TablePlace<RandomAddress> addresses;              // [max_depth, n_rows]
    std::size_t bytes = 0;
  };
  static DrawTables lay_out(std::size_t n_rows, std::int32_t max_depth);

  std::size_t at(std::size_t chain, std::int32_t depth) const {
    return static_cast<std::size_t>(depth) * n_rows_ + chain;
  }
  // Of tokens drawn, as ProcessLogits counts those of a chain from its first: what stands above one of this depth.
  std::int32_t node_above(std::int32_t depth) const {
    return depth == 0 ? -1 : static_cast<std::int32_t>(at(0, depth - 1));
  }
  float* logits(std::int32_t depth) const;
  // [n_rows, vocab] behind those that distributions are made of.
  float* raw_logits() const { return logits(max_depth_); }
  LoopShape put_steps(std::span<const DeviceDraftChain> chains);
  StepNeeds later_needs(std::span<const DeviceDraftChain> chains);
  StepInput later_step(std::span<const DeviceDraftChain> chains, std::int32_t depth);  // good until the next step
  void put_draw_tables(std::span<const DeviceDraftChain> chains, std::int32_t depth);
  bool put_processor_tables(std::span<const DeviceDraftChain> chains, std::int32_t depth);  // false: no chain has any
  // How many rows of logits.
  std::size_t put_pass(std::span<const std::uint16_t> weight_slots, std::span<const DraftSlice> slices, float* logits);
  void put_loop(const LoopShape& shape);
  void put_processors(std::int32_t depth, std::int32_t n_rows);
  void put_draw(std::int32_t depth, std::int32_t n_rows);
  StepInput checked_step();  // of slices_ and slot_of_slice_; good until the next call

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  std::size_t n_rows_;  // of each table of a depth: chains, filled up
  std::int32_t max_chains_, max_depth_, max_rows_;
  DeviceWeights weights_;
  DeviceTransformer transformer_;
  PagePool cache_;
  std::vector<std::unique_ptr<DeviceStep>> steps_;  // [max_depth]
  DrawTables draw_tables_;
  DeviceTables tables_;
  LogitsProcessorTables processors_;
  kernels::cuda::DeviceMemory<std::int32_t> parents_;  // [max_depth, n_rows] what stands above each token drawn
  kernels::cuda::DeviceMemory<float> logits_;          // [max_depth + 1, n_rows, vocab]
  kernels::cuda::DeviceMemory<kernels::cuda::RowDistribution> distributions_;
  kernels::cuda::DeviceMemory<kernels::cuda::RowPart> distribution_parts_, gumbel_parts_;
  kernels::cuda::DeviceMemory<std::int32_t> tokens_;
  kernels::cuda::DeviceMemory<float> logprobs_;
  std::map<LoopShape, std::unique_ptr<kernels::cuda::DeviceGraph>> graphs_;
  std::vector<std::int32_t> drawn_tokens_;  // [max_depth, n_rows], as the next two
  std::vector<float> drawn_logprobs_;
  std::vector<kernels::cuda::RowDistribution> drawn_distributions_;
  // Scratch of one call.
  SliceStep slice_step_;
  std::vector<DraftSlice> slices_;
  std::vector<std::uint16_t> slot_of_slice_;
  std::vector<float> logit_row_;
};

}  // namespace slip
