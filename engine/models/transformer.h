// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "checkpoints/model_config.h"
#include "common/tensor_view.h"
#include "engine/kv_cache/page_pool.h"
#include "engine/models/rope.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/thread_pool.h"

namespace slip {

using PageRange = kernels::SlotRange;  // in slots
// The cache of one sequence, and the part of it that a step may see.
struct KvView {
  PageTable* pages = nullptr;  // must have room for n_cached + n_ahead + this step's rows
  std::int32_t n_cached = 0;   // slots that hold committed tokens
  // Slots after those that earlier steps filled, for rows that may be ancestors of this step's. This step's row i is
  // stored at slot n_cached + n_ahead + i. REQUIRES: ancestors if it is not 0; not on a device.
  std::int32_t n_ahead = 0;
  std::span<const PageRange> visible;  // ranges of the slots before n_cached, ascending and disjoint, such as attention
                                       // sinks plus a window; empty: all. The step's own rows are always visible.
};

struct TapSet {
  std::uint64_t layers = 0;
};  // bit l: the hidden state after layer l is wanted

// One forward pass over rows of several sequences, as plain serialisable data (the simulator and tests replay it).
struct StepInput {
  std::span<const std::int32_t> tokens, positions;  // [n_row]; position = committed length + depth in the tree
  std::span<const std::int32_t> row_begin;          // [n_seq + 1] prefix sums of the rows per sequence
  std::span<const std::uint64_t>
      ancestors;  // [n_row, ancestor_words]; bit i = slot n_cached + i of its sequence is visible; empty: all chains
  std::int32_t ancestor_words = 0;
  std::span<const KvView> kv;                // [n_seq]
  std::span<const std::int32_t> logit_rows;  // rows whose logits are wanted, ascending
  TapSet taps;
  std::span<const std::uint16_t> weights;  // [n_seq] index in `weight_sets` of forward(); empty: all 0
};

struct StepOutput {
  TensorView logits;           // [n_logit_rows, vocab] float32, caller's memory
  TensorView final_hidden;     // [n_logit_rows, hidden] float32 after the final norm, caller's memory; data == nullptr:
                               // not wanted
  std::span<TensorView> taps;  // per bit of TapSet, [n_row, hidden]
};

// The weights of a Llama, Qwen2, Qwen3 or Mistral model, packed for this machine. Immutable; may be shared.
class ModelWeights {
 public:
  // Reads a Hugging Face folder, with its weights in one file or in shards. Where `config.json` and the file disagree,
  // throws Error{kDataLoss | kInvalidArgument} naming the tensor. `check_finite` also refuses NaN and Inf (drafts
  // before they serve).
  static std::shared_ptr<const ModelWeights> load(const std::filesystem::path& folder, Dtype dtype,
                                                  bool check_finite = false);

  struct Layer {
    std::vector<float> attention_norm, ffn_norm;  // [hidden]
    kernels::PackedMatrix qkv;                    // [(n_heads + 2 n_kv_heads) head_dim, hidden]
    kernels::PackedMatrix attention_out;          // [hidden, n_heads head_dim]
    kernels::PackedMatrix gate_up;                // of kernels::gated_parts(), each [intermediate, hidden]
    kernels::PackedMatrix down;                   // [hidden, intermediate]
    // Empty where the architecture has none. A bias is [n_out] of the matrix of the same name; gate_up_bias has gate's,
    // then up's.
    std::vector<float> qkv_bias, attention_out_bias, gate_up_bias, down_bias;
    std::vector<float> q_norm, k_norm;  // [head_dim], the same for all heads
  };
  ModelConfig config;
  Dtype dtype = Dtype::kBFloat16;
  std::vector<std::byte> embedding;  // [vocab, hidden] in `dtype`; empty if tied to lm_head
  std::vector<Layer> layers;
  std::vector<float> final_norm;  // [hidden]
  kernels::PackedMatrix lm_head;  // [vocab, hidden]
  std::int64_t load_us = 0;       // time of reading and packing
  std::size_t bytes() const;
};

// Scratch memory for forward(), sized once and reused every step: forward() itself allocates nothing.
class Workspace {
 public:
  Workspace(const ModelConfig& config, std::int32_t max_rows, std::int32_t max_logit_rows);
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  std::int32_t max_rows() const;
  std::int32_t max_logit_rows() const;
  struct Buffers;
  Buffers& buffers() { return *buffers_; }

 private:
  std::unique_ptr<Buffers> buffers_;
};

// The batch-invariant forward pass of one model shape. `weight_sets` holds the weights that StepInput::weights indexes
// (a target has one set). Threads: const and reentrant given distinct Workspaces and pools.
class Transformer {
 public:
  Transformer(const ModelConfig& config, kernels::ThreadPool& pool);

  // Stores this step's keys and values, and fills the wanted outputs. REQUIRES: rows ≤ workspace.max_rows(), every
  // KvView has room, tokens in [0, vocab), positions in [0, max_positions). All weight sets have this shape.
  void forward(std::span<const ModelWeights* const> weight_sets, const StepInput& input, PagePool& cache,
               Workspace& workspace, StepOutput& output) const;

  const ModelConfig& config() const { return config_; }

 private:
  ModelConfig config_;
  kernels::ThreadPool* pool_;
  RopeTable rope_;
};

// The target as the engine sees it: runs steps. Threads: the engine thread.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual void run(const StepInput& input, StepOutput& output) = 0;
  virtual const ModelConfig& config() const = 0;
  virtual PagePool& cache() = 0;
  virtual std::int32_t max_rows() const = 0;
  virtual std::int32_t max_logit_rows() const { return max_rows(); }
};

// A target on the CPU.
class LocalWorker final : public Worker {
 public:
  LocalWorker(std::shared_ptr<const ModelWeights> weights, std::int32_t max_rows, std::int32_t max_logit_rows,
              std::int32_t n_pages, kernels::ThreadPool& pool);
  void run(const StepInput& input, StepOutput& output) override;
  const ModelConfig& config() const override { return transformer_.config(); }
  PagePool& cache() override { return cache_; }
  std::int32_t max_rows() const override { return workspace_.max_rows(); }
  std::int32_t max_logit_rows() const override { return workspace_.max_logit_rows(); }

 private:
  std::shared_ptr<const ModelWeights> weights_;
  Transformer transformer_;
  PagePool cache_;
  Workspace workspace_;
};

}  // namespace slip
