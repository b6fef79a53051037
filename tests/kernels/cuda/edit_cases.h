// SPDX-License-Identifier: Apache-2.0
// Rows of several sequences with everything that a request may ask of its logits, for the host's and the device's
// edits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "kernels/cuda/edits.cuh"

namespace slip::kernels::cuda {

// What SequenceEdits points to, of all sequences, and the rows with the masks they have.
struct EditCase {
  std::int32_t vocab = 0;
  std::vector<float> logits;  // [rows, vocab]
  std::vector<EditedRow> rows;
  std::vector<SequenceEdits> sequences;
  std::vector<SaidToken> said;
  std::vector<TokenBias> biases;
  std::vector<std::int32_t> ends, tokens, parents;
  std::vector<std::uint64_t> masks;

  EditLogits job(std::vector<float>& edited) const {
    EditLogits job;
    job.logits = logits.data();
    job.stride = job.edited_stride = job.vocab = vocab;
    job.rows = rows.data();
    job.sequences = sequences.data();
    job.said = said.data();
    job.biases = biases.data();
    job.ends = ends.data();
    job.tokens = tokens.data();
    job.parents = parents.data();
    job.masks = masks.data();
    edited.assign(logits.size(), 0);
    job.edited = edited.data();
    return job;
  }
};

// What was committed to a sequence, as SaidToken has it: times in the answer, or in the prompt alone.
inline std::vector<SaidToken> count_said(const std::vector<std::int32_t>& committed, std::size_t n_prompt) {
  std::map<std::int32_t, std::int32_t> times;
  for (std::size_t i = 0; i < committed.size(); ++i) {
    std::int32_t& of = times[committed[i]];
    of = i < n_prompt ? kInPromptOnly : said_again(of, 1);
  }
  std::vector<SaidToken> out;
  for (const auto& [id, n] : times) out.push_back({id, n});
  return out;
}

// Appends values to a list of all sequences and says where they are.
template <class Listed>
IdRange appended(std::vector<Listed>& list, const std::vector<Listed>& values) {
  const auto begin = static_cast<std::int32_t>(list.size());
  list.insert(list.end(), values.begin(), values.end());
  return {begin, static_cast<std::int32_t>(list.size())};
}

}  // namespace slip::kernels::cuda
