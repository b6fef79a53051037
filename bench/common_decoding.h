// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/transformer.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// How the rows of a step belong together: all to one sequence, as in verification, or one to each of several.
enum class Layout : std::uint8_t { kRows, kSequences };
const char* layout_name(Layout layout);

struct StepShape {
  Layout layout = Layout::kRows;
  std::int32_t context = 0;  // committed tokens of each sequence before the step
  std::int32_t n = 1;        // rows of the one sequence, or sequences of one row
};

// What there is to decode: as many sequences, with so many committed tokens each, and room for a step's rows.
struct DecodingSize {
  std::int32_t most_context = 0, most_rows = 1, most_sequences = 1;
  std::int32_t prefill_tokens = 0, most_chunk = 256;
};

// A model with sequences whose keys and values lie in its cache, and steps on them that leave the cache as it was.
// Threads: one, the pool's caller.
class Decoding {
 public:
  // Throws Error{kInvalidArgument} naming --context when the model has too few positions.
  Decoding(std::shared_ptr<const ModelWeights> weights, const DecodingSize& size, kernels::ThreadPool& pool);

  // Fills the caches: one sequence is read, the others are copies of it in pages of their own.
  void fill();

  // One step of this shape; the logits of all its rows.
  void step(const StepShape& shape);
  // Reads `n_tokens` of a prompt in chunks; the logits of the last token.
  void prefill(std::int32_t n_tokens, std::int32_t chunk);
  // Greedy continuation of a prompt, on pages of its own.
  std::vector<std::int32_t> continue_greedily(const std::vector<std::int32_t>& prompt, std::int32_t n_tokens);

  // Nothing is timed that does not compute what it should: the rows together give the bits of the rows one by one.
  // A failure ends the program.
  void check(const StepShape& shape);

  // Read by one such step: all matrices once, and the keys and values of the visible tokens of each sequence.
  std::size_t bytes_read(const StepShape& shape) const;
  const ModelWeights& weights() const { return *weights_; }

 private:
  void step_rows(std::int32_t first, std::int32_t n, bool all_logits);
  void step_sequences(std::int32_t first, std::int32_t n, std::int32_t context);
  void run(StepInput& input, std::span<const std::int32_t> logit_rows);
  std::int32_t token_at(std::int32_t position) const;

  std::shared_ptr<const ModelWeights> weights_;
  DecodingSize size_;
  LocalWorker worker_;
  std::vector<PageTable> sequences_;
  std::vector<float> logits_;
};

}  // namespace slip::bench
