// SPDX-License-Identifier: Apache-2.0
// Rows of several sequences with all logits processors that a request may use, for the tests of the host's and the
// device's implementation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "kernels/cuda/logits_processors.cuh"

namespace slip::kernels::cuda {

// The data behind SequenceProcessors for all sequences, and the rows with their masks.
struct ProcessorCase {
  std::int32_t vocab = 0;
  std::vector<float> logits;  // [rows, vocab]
  std::vector<ProcessedRow> rows;
  std::vector<SequenceProcessors> sequences;
  std::vector<TokenCount> counts;
  std::vector<TokenBias> biases;
  std::vector<std::int32_t> ends, tokens, parents;
  std::vector<std::uint64_t> masks;

  ProcessLogits job(std::vector<float>& processed) const {
    ProcessLogits job;
    job.logits = logits.data();
    job.stride = job.processed_stride = job.vocab = vocab;
    job.rows = rows.data();
    job.sequences = sequences.data();
    job.counts = counts.data();
    job.biases = biases.data();
    job.ends = ends.data();
    job.tokens = tokens.data();
    job.parents = parents.data();
    job.masks = masks.data();
    processed.assign(logits.size(), 0);
    job.processed = processed.data();
    return job;
  }
};

// The counts of a sequence's committed tokens, as in TokenCount: the number in the answer, or in the prompt only.
inline std::vector<TokenCount> count_tokens(const std::vector<std::int32_t>& committed, std::size_t n_prompt) {
  std::map<std::int32_t, std::int32_t> times;
  for (std::size_t i = 0; i < committed.size(); ++i) {
    std::int32_t& of = times[committed[i]];
    of = i < n_prompt ? kInPromptOnly : counted_again(of, 1);
  }
  std::vector<TokenCount> out;
  for (const auto& [id, n] : times) out.push_back({id, n});
  return out;
}

// Appends values to a list for all sequences, and returns their range.
template <class Listed>
IdRange appended(std::vector<Listed>& list, const std::vector<Listed>& values) {
  const auto begin = static_cast<std::int32_t>(list.size());
  list.insert(list.end(), values.begin(), values.end());
  return {begin, static_cast<std::int32_t>(list.size())};
}

}  // namespace slip::kernels::cuda
