// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/models/transformer.h"
#include "kernels/thread_pool.h"

namespace slip {

// The rows of a step: several of one sequence, as in verification; one of each sequence, as in batched plain decoding;
// or several of each.
struct StepShape {
  std::int32_t context = 0;  // committed tokens per sequence before the step
  std::int32_t n_sequences = 1;
  std::int32_t n_rows = 1;  // per sequence
};

// The dimensions of a decoding benchmark.
struct DecodingSize {
  std::int32_t most_context = 0, most_sequences = 1;
  std::int32_t most_rows = 1;       // of one sequence in a step
  std::int32_t most_step_rows = 1;  // of all sequences in a step
  std::int32_t prefill_tokens = 0, most_chunk = 256;
};

// A model with sequences in its KV cache, and steps on them that leave the cache unchanged. Threads: one, the pool's
// caller.
class Decoding {
 public:
  // Throws Error{kInvalidArgument} naming --context if the model has too few positions.
  Decoding(std::shared_ptr<const ModelWeights> weights, const DecodingSize& size, kernels::ThreadPool& pool);

  // Fills the caches: one sequence is computed, the others are copies in their own pages.
  void fill();

  // One step of this shape: computes the logits of all its rows, or those of the last row alone, as of a prompt.
  void step(const StepShape& shape, bool all_logits = true);
  // Processes `n_tokens` of a prompt in chunks; returns the last token's logits.
  void prefill(std::int32_t n_tokens, std::int32_t chunk);
  // Greedy continuation of a prompt, in separate pages.
  std::vector<std::int32_t> continue_greedily(const std::vector<std::int32_t>& prompt, std::int32_t n_tokens);

  // Checks the step before it is timed: the batch of rows must give the same bits as the rows one by one. A failure
  // ends the program.
  void check(const StepShape& shape);

  // Bytes that one such step reads: all matrices once, and the keys and values of each sequence's visible tokens.
  std::size_t bytes_read(const StepShape& shape) const;
  const ModelWeights& weights() const { return *weights_; }

 private:
  // Rows [first_row, first_row + n_rows) of sequences [first, first + n_sequences).
  struct Rows {
    std::int32_t first, n_sequences, first_row, n_rows;
  };
  void run(const Rows& rows, bool all_logits);
  void run(StepInput& input, std::span<const std::int32_t> logit_rows);
  std::int32_t token_at(std::int32_t sequence, std::int32_t position) const;

  std::shared_ptr<const ModelWeights> weights_;
  DecodingSize size_;
  LocalWorker worker_;
  std::vector<PageTable> sequences_;
  std::vector<float> logits_;
};

}  // namespace slip
