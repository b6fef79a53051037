// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "common/aligned_memory.h"
#include "engine/models/transformer.h"
#include "kernels/attention.h"

namespace slip {

// `count` values of T in aligned memory, zeroed. Throws std::bad_alloc.
template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(std::size_t count) : memory_(aligned_memory(count * sizeof(T))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    std::uninitialized_value_construct_n(data(), count);
  }
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }

 private:
  AlignedMemory memory_;
};

// Adjacent rows (and the wanted logits among them) with the same weights: one matmul for each run.
struct WeightRun {
  const ModelWeights* weights = nullptr;
  std::int32_t row_begin = 0, row_end = 0;
  std::int32_t logit_begin = 0, logit_end = 0;
};

struct Workspace::Buffers {
  Buffers(const ModelConfig& config, std::int32_t rows, std::int32_t logit_rows);

  std::int32_t max_rows, max_logit_rows;
  AlignedArray<float> residual;                       // [max_rows, hidden]
  AlignedArray<float> normed;                         // [max_rows, hidden]
  AlignedArray<float> qkv;                            // [max_rows, (n_heads + 2 n_kv_heads) head_dim]
  AlignedArray<float> attention;                      // [max_rows, n_heads head_dim]
  AlignedArray<std::byte> gated;                      // activations [max_rows, intermediate]
  AlignedArray<float> final_hidden;                   // [max_logit_rows, hidden]
  AlignedArray<std::byte> scratch;                    // activations of the other products, one at a time
  std::vector<kernels::AttentionRow> attention_rows;  // [max_rows]
  std::vector<WeightRun> runs;                        // capacity max_rows
  std::int32_t n_rows = 0;                            // rows that are left in the pass
};

}  // namespace slip
