// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/models/transformer.h"
#include "tests/engine/models/plain_decode.h"

namespace slip::testing {

inline std::vector<std::int32_t> random_tokens(int n, unsigned seed, std::int32_t vocabulary = 8192) {
  std::mt19937 draw(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  for (auto& token : tokens) token = std::uniform_int_distribution<std::int32_t>(6, vocabulary - 1)(draw);
  return tokens;
}

inline bool same_bits(const float* a, const float* b, std::size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

// One sequence's share of a step under construction.
struct Part {
  PlainSequence* past = nullptr;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> parents;  // index in `tokens`, −1: the committed past; empty: a chain
  std::uint16_t weights = 0;
};

// Runs several sequences' rows as one step and keeps the logits of every row, or of the rows that want() names.
class BatchStep {
 public:
  explicit BatchStep(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) append(part);
    logit_rows_.resize(tokens_.size());
    std::iota(logit_rows_.begin(), logit_rows_.end(), 0);
  }

  void want(std::vector<std::int32_t> rows) { logit_rows_ = std::move(rows); }

  void run(const Transformer& transformer, std::span<const ModelWeights* const> weight_sets, PagePool& cache,
           Workspace& workspace) {
    StepOutput output = make_room(transformer.config());
    transformer.forward(weight_sets, describe(), cache, workspace, output);
  }
  void run(Worker& worker) {
    StepOutput output = make_room(worker.config());
    worker.run(describe(), output);
  }
  const float* logits(std::size_t index) const { return logits_.data() + index * vocabulary_; }  // of wanted rows

 private:
  void append(const Part& part) {
    const auto n = part.tokens.size();
    if (!part.past->pages().reserve(part.past->length() + static_cast<std::int32_t>(n))) std::abort();
    std::vector<std::uint64_t> seen(n);
    std::vector<std::int32_t> depth(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t parent = part.parents.empty() ? static_cast<std::int32_t>(i) - 1 : part.parents[i];
      seen[i] = std::uint64_t{1} << i;
      if (parent >= 0) seen[i] |= seen[static_cast<std::size_t>(parent)];
      depth[i] = parent < 0 ? 0 : depth[static_cast<std::size_t>(parent)] + 1;
      positions_.push_back(part.past->length() + depth[i]);
    }
    tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
    ancestors_.insert(ancestors_.end(), seen.begin(), seen.end());
    weights_.push_back(part.weights);
    row_begin_.push_back(static_cast<std::int32_t>(tokens_.size()));
    KvView view;
    view.pages = &part.past->pages();
    view.n_cached = part.past->length();
    kv_.push_back(view);
  }

  StepOutput make_room(const ModelConfig& config) {
    logits_.resize(logit_rows_.size() * static_cast<std::size_t>(config.vocab_size));
    vocabulary_ = static_cast<std::size_t>(config.vocab_size);
    StepOutput output;
    output.logits = TensorView::contiguous(logits_.data(), {std::ssize(logit_rows_), config.vocab_size});
    return output;
  }

  StepInput describe() {
    StepInput input;
    input.tokens = tokens_;
    input.positions = positions_;
    input.row_begin = row_begin_;
    input.kv = kv_;
    input.logit_rows = logit_rows_;
    input.weights = weights_;
    input.ancestors = ancestors_;
    input.ancestor_words = 1;
    return input;
  }

  std::vector<Part> parts_;
  std::vector<std::int32_t> tokens_, positions_, row_begin_{0}, logit_rows_;
  std::vector<std::uint64_t> ancestors_;
  std::vector<std::uint16_t> weights_;
  std::vector<KvView> kv_;
  std::vector<float> logits_;
  std::size_t vocabulary_ = 0;
};

}  // namespace slip::testing
