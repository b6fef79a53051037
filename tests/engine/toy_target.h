// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/models/transformer.h"
#include "engine/sampling/random.h"
#include "tests/checkpoints/tiny_config.h"

namespace slip::testing {

inline ModelConfig toy_config(std::int32_t vocab_size, std::int32_t max_positions = 512) {
  return tiny_config({.vocab_size = vocab_size,
                      .hidden_size = 16,
                      .intermediate_size = 16,
                      .n_heads = 1,
                      .max_positions = max_positions,
                      .tied_embeddings = false});
}

// The toy language: the next token's logits are a hash of every token before it and of its position, so that one wrong
// token, slot or position changes all that follows. `order` > 0 limits how many tokens the hash covers.
struct ToyLanguage {
  std::int32_t vocab_size = 23;
  std::uint64_t seed = 1;
  float spread = 4;  // larger: more certain
  float lowest = 0;  // of all logits
  std::size_t order = 0;
  std::vector<std::int32_t> script;  // not empty: what follows a prompt of one token, over and over

  std::vector<float> logits(std::span<const std::int32_t> tokens) const {
    if (!script.empty()) {
      std::vector<float> certain(static_cast<std::size_t>(vocab_size));
      certain[static_cast<std::size_t>(script[(tokens.size() - 1) % script.size()])] = 30;
      return certain;
    }
    std::uint64_t state = seed;
    const std::size_t first = order > 0 && tokens.size() > order ? tokens.size() - order : 0;
    for (std::size_t i = first; i < tokens.size(); ++i) {
      state = (state ^ static_cast<std::uint64_t>(tokens[i] + 1)) * 0x9E3779B97F4A7C15;
      state ^= state >> 29;
    }
    std::vector<float> row(static_cast<std::size_t>(vocab_size));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double u = uniform({state, 0, 7}, RandomPurpose::kDraft, static_cast<std::uint32_t>(i));
      row[i] = lowest + spread * static_cast<float>(u);
    }
    return row;
  }
};

// Runs the toy language as a target does: rows write their token and position into the paged cache, and each row reads
// back what its ancestors wrote there.
class ToyWorker final : public Worker {
 public:
  struct Size {
    std::int32_t n_pages = 256, max_rows = 512, max_logit_rows = 256, max_positions = 512;
  };
  explicit ToyWorker(const ToyLanguage& language) : ToyWorker(language, Size{}) {}
  ToyWorker(const ToyLanguage& language, Size size)
      : language_(language),
        size_(size),
        config_(toy_config(language.vocab_size, size.max_positions)),
        cache_(config_, Dtype::kFloat32, size.n_pages) {}

  void run(const StepInput& input, StepOutput& output) override {
    ++n_runs;
    most_rows = std::max(most_rows, static_cast<std::int32_t>(input.tokens.size()));
    most_sequences = std::max(most_sequences, static_cast<std::int32_t>(input.kv.size()));
    if (on_run) on_run(n_runs);
    std::size_t next_logit = 0;
    for (std::size_t s = 0; s < input.kv.size(); ++s) {
      for (std::int32_t row = input.row_begin[s]; row < input.row_begin[s + 1]; ++row) {
        store(input, s, row);
        if (next_logit == input.logit_rows.size() || input.logit_rows[next_logit] != row) continue;
        const auto logits = language_.logits(read_path(input, s, row));
        std::copy(logits.begin(), logits.end(), output.logits.row<float>(static_cast<std::int64_t>(next_logit++)));
        if (spoil)
          spoil(input, std::span(output.logits.row<float>(static_cast<std::int64_t>(next_logit) - 1), logits.size()));
      }
    }
    if (next_logit != input.logit_rows.size()) throw std::logic_error("a wanted row is not in the step");
  }
  const ModelConfig& config() const override { return config_; }
  PagePool& cache() override { return cache_; }
  std::int32_t max_rows() const override { return size_.max_rows; }
  std::int32_t max_logit_rows() const override { return size_.max_logit_rows; }

  std::function<void(int n_run)> on_run;                                 // may throw
  std::function<void(const StepInput&, std::span<float> logits)> spoil;  // a planted bug
  int n_runs = 0;
  std::int32_t most_rows = 0, most_sequences = 0;

 private:
  static constexpr int kNextDim = 16;
  // Address of the first element of a slot's keys; the next dim's element is kNextDim further.
  float* slot(const KvView& kv, std::int32_t index) {
    if (index >= kv.pages->capacity_slots()) throw std::logic_error("a slot beyond the reserved pages");
    const kernels::PagedKv layer = cache_.layer(0);
    auto* page = static_cast<std::byte*>(layer.base) +
                 kv.pages->pages()[index / PagePool::kPageTokens] * layer.page_stride_bytes;
    const std::int32_t offset = index % PagePool::kPageTokens;
    return reinterpret_cast<float*>(page) + offset / 16 * 16 * layer.head_dim + offset % 16;
  }

  void store(const StepInput& input, std::size_t s, std::int32_t row) {
    float* key = slot(input.kv[s], input.kv[s].n_cached + row - input.row_begin[s]);
    key[0] = static_cast<float>(input.tokens[static_cast<std::size_t>(row)]);
    key[kNextDim] = static_cast<float>(input.positions[static_cast<std::size_t>(row)]);
  }

  // Tokens of the visible slots in order; changes a token whose position is not its rank.
  std::vector<std::int32_t> read_path(const StepInput& input, std::size_t s, std::int32_t row) {
    std::vector<std::int32_t> path;
    const KvView& kv = input.kv[s];
    const auto read = [&](std::int32_t index) {
      const float* key = slot(kv, index);
      const bool right = static_cast<std::size_t>(key[kNextDim]) == path.size();
      path.push_back(static_cast<std::int32_t>(key[0]) + (right ? 0 : 1000));
    };
    for (std::int32_t index = 0; index < kv.n_cached; ++index) read(index);
    for (std::int32_t own = 0; own <= row - input.row_begin[s]; ++own) {
      const auto word = static_cast<std::size_t>(row * input.ancestor_words + own / 64);
      const bool visible = input.ancestors.empty() || (input.ancestors[word] >> (own % 64) & 1) != 0;
      if (visible) read(kv.n_cached + own);
    }
    return path;
  }

  ToyLanguage language_;
  Size size_;
  ModelConfig config_;
  PagePool cache_;
};

}  // namespace slip::testing
