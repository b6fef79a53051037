// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/models/transformer.h"
#include "kernels/elementwise.h"

namespace slip::testing {

// Runs one sequence through a worker step by step, without any optimisation: the reference for all tests. REQUIRES: the
// worker's workspace holds at least one logit row.
class PlainSequence {
 public:
  explicit PlainSequence(Worker& worker)
      : worker_(&worker), pages_(worker.cache()), logits_(static_cast<std::size_t>(worker.config().vocab_size)) {}

  // Appends the tokens, `chunk` rows a step; the logits after the last one.
  const std::vector<float>& feed(std::span<const std::int32_t> tokens, std::size_t chunk) {
    while (!tokens.empty()) {
      const std::size_t n = std::min(chunk, tokens.size());
      step(tokens.first(n), 1);
      tokens = tokens.subspan(n);
    }
    return logits_;
  }
  // The next `n_tokens` most likely tokens after what was fed; an end token does not stop it.
  std::vector<std::int32_t> greedy(int n_tokens) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < n_tokens; ++i) {
      tokens.push_back(static_cast<std::int32_t>(kernels::argmax(logits_)));
      if (i + 1 < n_tokens) feed(std::span(tokens).last(1), 1);
    }
    return tokens;
  }
  // Appends the tokens in one step; the logits [n_logits, vocab] after each of the last `n_logits`.
  const std::vector<float>& feed_at_once(std::span<const std::int32_t> tokens, std::int32_t n_logits) {
    step(tokens, n_logits);
    return logits_;
  }
  // Counts rows that another step stored in these pages.
  void advance(std::int32_t n_rows) { length_ += n_rows; }
  const std::vector<float>& logits() const { return logits_; }
  std::int32_t length() const { return length_; }
  PageTable& pages() { return pages_; }

 private:
  void step(std::span<const std::int32_t> tokens, std::int32_t n_logits) {
    const auto n = static_cast<std::int32_t>(tokens.size());
    std::vector<std::int32_t> positions, logit_rows;
    for (std::int32_t i = 0; i < n; ++i) positions.push_back(length_ + i);
    for (std::int32_t i = n - n_logits; i < n; ++i) logit_rows.push_back(i);
    if (!pages_.reserve(length_ + n)) throw std::runtime_error("the test's page pool is too small");
    const std::vector<std::int32_t> row_begin{0, n};
    KvView kv;
    kv.pages = &pages_;
    kv.n_cached = length_;
    StepInput input;
    input.tokens = tokens;
    input.positions = positions;
    input.row_begin = row_begin;
    input.kv = {&kv, 1};
    input.logit_rows = logit_rows;
    const std::int64_t vocabulary = worker_->config().vocab_size;
    logits_.resize(static_cast<std::size_t>(n_logits * vocabulary));
    StepOutput output;
    output.logits = TensorView::contiguous(logits_.data(), {n_logits, vocabulary});
    worker_->run(input, output);
    length_ += n;
  }

  Worker* worker_;
  PageTable pages_;
  std::int32_t length_ = 0;
  std::vector<float> logits_;
};

inline std::vector<std::int32_t> plain_greedy(Worker& worker, std::span<const std::int32_t> prompt, int n_tokens) {
  PlainSequence sequence(worker);
  sequence.feed(prompt, static_cast<std::size_t>(worker.max_rows()));
  return sequence.greedy(n_tokens);
}

}  // namespace slip::testing
