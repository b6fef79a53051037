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

// One sequence's part of a draft loop: committed tokens that the draft has not read, at least the last, in pages with
// room for all that are drawn too.
struct DeviceDraftChain : SequenceSlice {
  int weight_slot = 0;     // weight slot of its draft
  std::int32_t depth = 0;  // tokens to draw
  kernels::cuda::Transform transform;
  kernels::cuda::DrawRule rule = kernels::cuda::DrawRule::kBest;
  RandomAddress first;                      // of the first token drawn; depth d uses output_index + d
  const SequenceRef* processors = nullptr;  // the request with logits processors; null: none
};

// Runs drafts of one shape on a device: one cache, and one weight slot for each version. The drafting loop draws a
// chain of tokens for each of several sequences, whichever weights each uses. A depth is: pass, logits processors,
// distribution, draw; the drawn token is the input of the next pass. The loop is one captured graph and works for all
// weight slots without a new capture. Only tokens and their distributions are copied to the host. Threads: those of the
// queue.
class DeviceDraft {
 public:
  struct Size {
    std::int32_t n_pages = 0;
    std::int32_t max_chains = 0;     // maximum sequences of one loop, or of one read()
    std::int32_t max_depth = 0;      // maximum tokens drawn for each
    std::int32_t max_rows_read = 0;  // maximum tokens of a loop's first pass, or of one read()
  };
  // Has one weight slot, which must be loaded before the first pass. Error{kTooLarge}.
  DeviceDraft(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const ModelWeights& shape, const Size& size);

  bool fits(const ModelWeights& weights) const { return weights_.fits(weights); }
  // As in DeviceWeights.
  int add_slot() { return weights_.add_slot(); }
  void load(const DeviceImage& image, int weight_slot) { weights_.load(image, weight_slot); }
  const ModelConfig& config() const { return transformer_.config(); }
  PagePool& cache() { return cache_; }

  // Reads the slices' tokens into the cache with the weights of `weight_slot`; returns no logits. One weight slot at a
  // time: a product then reads its weights once for up to 64 rows; in a pass over several weight slots, once for every
  // eight.
  void read(int weight_slot, std::span<const DraftSlice> slices);
  // The same, slice i with the weights of weight_slots[i]; copies the logits [n, vocab] of the slices that want them to
  // the host.
  void score(std::span<const std::uint16_t> weight_slots, std::span<const DraftSlice> slices, std::span<float> logits);
  // Draws all chains. REQUIRES: chains in descending order of depth, each of 1 … max_depth; no position beyond the
  // model's context.
  void draw(std::span<const DeviceDraftChain> chains);

  // Results of the last draw(): a chain's token at a depth, its log probability under its distribution, and whether the
  // draft's logits were finite there. If not, the tokens from there on are meaningless.
  std::int32_t token(std::size_t chain, std::int32_t depth) const { return drawn_tokens_[at(chain, depth)]; }
  float logprob(std::size_t chain, std::int32_t depth) const { return drawn_logprobs_[at(chain, depth)]; }
  bool is_finite(std::size_t chain, std::int32_t depth) const {
    return drawn_distributions_[at(chain, depth)].state == kernels::cuda::DistributionState::kFine;
  }
  // Copies the distribution to the host, with the exact probabilities that the token was drawn from. Copies one row of
  // logits.
  void distribution(std::size_t chain, std::int32_t depth, Distribution& out);
  // The same on the device: valid until the next draw().
  DeviceDistribution device_distribution(std::size_t chain, std::int32_t depth) const;

 private:
  struct LoopShape {
    DevicePassShape first, later;
    std::int32_t depth = 0, n_chains = 0;  // chains: padded if captured
    bool processors = false;               // the loop has logits processors
    auto operator<=>(const LoopShape&) const = default;
  };
  // The input tables of draws, in device memory.
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
  // The parent of the tokens at this depth, as an index among the drawn tokens as ProcessLogits counts them: from a
  // chain's first token.
  std::int32_t node_above(std::int32_t depth) const {
    return depth == 0 ? -1 : static_cast<std::int32_t>(at(0, depth - 1));
  }
  float* logits(std::int32_t depth) const;
  // [n_rows, vocab] raw logits, stored after those that distributions are made of.
  float* raw_logits() const { return logits(max_depth_); }
  LoopShape put_steps(std::span<const DeviceDraftChain> chains);
  StepNeeds later_needs(std::span<const DeviceDraftChain> chains);
  StepInput later_step(std::span<const DeviceDraftChain> chains, std::int32_t depth);  // valid until the next step
  void put_draw_tables(std::span<const DeviceDraftChain> chains, std::int32_t depth);
  // Returns false if no chain has logits processors.
  bool put_processor_tables(std::span<const DeviceDraftChain> chains, std::int32_t depth);
  // Returns the number of rows of logits.
  std::size_t put_pass(std::span<const std::uint16_t> weight_slots, std::span<const DraftSlice> slices, float* logits);
  void put_loop(const LoopShape& shape);
  void put_processors(std::int32_t depth, std::int32_t n_rows);
  void put_draw(std::int32_t depth, std::int32_t n_rows);
  StepInput checked_step();  // from slices_ and slot_of_slice_; valid until the next call

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  std::size_t n_rows_;  // rows of each table of a depth: max_chains, padded
  std::int32_t max_chains_, max_depth_, max_rows_;
  DeviceWeights weights_;
  DeviceTransformer transformer_;
  PagePool cache_;
  std::vector<std::unique_ptr<DeviceStep>> steps_;  // [max_depth]
  DrawTables draw_tables_;
  DeviceTables tables_;
  LogitsProcessorTables processors_;
  kernels::cuda::DeviceMemory<std::int32_t> parents_;  // [max_depth, n_rows] parent of each token drawn
  kernels::cuda::DeviceMemory<float> logits_;          // [max_depth + 1, n_rows, vocab]
  kernels::cuda::DeviceMemory<kernels::cuda::RowDistribution> distributions_;
  kernels::cuda::DeviceMemory<kernels::cuda::RowPart> distribution_parts_, gumbel_parts_;
  kernels::cuda::DeviceMemory<std::int32_t> tokens_;
  kernels::cuda::DeviceMemory<float> logprobs_;
  std::map<LoopShape, std::unique_ptr<kernels::cuda::DeviceGraph>> graphs_;
  std::vector<std::int32_t> drawn_tokens_;  // [max_depth, n_rows], also the next two
  std::vector<float> drawn_logprobs_;
  std::vector<kernels::cuda::RowDistribution> drawn_distributions_;
  // Scratch of one call.
  SliceStep slice_step_;
  std::vector<DraftSlice> slices_;
  std::vector<std::uint16_t> slot_of_slice_;
  std::vector<float> logit_row_;
};

}  // namespace slip
