// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/transformer.h"

namespace slip {

// The next tokens of one sequence for one set of weights.
struct DraftFeed {
  const ModelWeights* weights = nullptr;
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
  std::span<const std::int32_t> tokens;  // at positions n_cached …
  bool wants_logits = false;             // of the last token
};

// Drafts of one shape and dtype: one cache, one workspace, one forward pass for all of them, whichever weights a
// sequence uses. Threads: one owner.
class DraftFamily {
 public:
  struct Size {
    std::int32_t n_pages = 0, max_rows = 0, max_logit_rows = 0;
  };
  // Error{kTooLarge} when there is no memory for the cache.
  DraftFamily(const ModelWeights& first, Size size, kernels::ThreadPool& pool);

  bool fits(const ModelWeights& weights) const;
  const ModelConfig& config() const { return transformer_.config(); }
  PagePool& cache() { return cache_; }

  // REQUIRES: feeds of equal weights stand together; every page table has room; rows within Size.
  void run(std::span<const DraftFeed> feeds);
  // After run(): the logits of the i-th feed that wanted them, [vocab].
  std::span<const float> logits(std::size_t i) const;
  std::int64_t n_passes() const { return n_passes_; }

 private:
  void gather(std::span<const DraftFeed> feeds);

  Dtype dtype_;
  Transformer transformer_;
  PagePool cache_;
  Workspace workspace_;
  std::unique_ptr<float[]> logits_;  // [max_logit_rows, vocab]
  std::vector<std::int32_t> tokens_, positions_, row_begin_, logit_rows_;
  std::vector<KvView> kv_;
  std::vector<std::uint16_t> weight_index_;
  std::vector<const ModelWeights*> members_;
  std::int64_t n_passes_ = 0;
};

}  // namespace slip
