// SPDX-License-Identifier: Apache-2.0
// Row-wise operations between the matrix products: a job, and the body of its thread blocks. Block x computes row x.
#pragma once

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/weights.cuh"

namespace slip::kernels::cuda {

inline constexpr int kRowThreads = 256;
using RowBlock = Block<kRowThreads>;

// hidden[row] = embedding[tokens[row]], widened to float32.
struct Embed {
  Weight<std::uint16_t> embedding;  // [vocab, n] bfloat16
  const std::int32_t* tokens = nullptr;
  std::int64_t n = 0;       // hidden size
  float* hidden = nullptr;  // [n_rows, n]
  bool packed = false;  // true: in the order of weight_at(), as the output matrix of tied embeddings; false: by rows
  const std::int32_t* token_rows = nullptr;  // row i's token is tokens[token_rows[i]]; null: tokens[i]
  RowWeights row_weights;                    // rows without a model are skipped
};

SLIP_DEVICE void embed(const RowBlock& block, const Embed& job) {
  if (job.row_weights.skips(block.x)) return;
  const std::uint16_t* from = job.row_weights.find(job.embedding, block.x);
  const std::int64_t token = job.tokens[job.token_rows == nullptr ? block.x : job.token_rows[block.x]];
  float* to = job.hidden + block.x * job.n;
  block.each_apart([&](int thread) {
    for (std::int64_t i = thread; i < job.n; i += kRowThreads) {
      to[i] = widen(from[job.packed ? weight_at(token, i, job.n) : token * job.n + i]);
    }
  });
}

// y = x / sqrt(mean(x²) + eps) · weight, stored as float32, as bfloat16 input of the next matrix product, or as both.
struct RmsNorm {
  const float* x = nullptr;   // rows of n floats
  std::int64_t x_stride = 0;  // in floats, as y_stride
  Weight<float> weight;       // [n]
  std::int64_t n = 0;
  float eps = 0;
  const std::int32_t* rows = nullptr;  // row i of y is row rows[i] of x; null: row i
  float* y = nullptr;                  // [n_rows, n]; null: not wanted
  std::int64_t y_stride = 0;
  std::uint16_t* activations = nullptr;  // [n_rows, n] in the order of activation_at(); null: not wanted
  RowWeights row_weights;                // models of y's rows
};

// Shared memory of a block.
struct RmsNormShared {
  float slots[RowBlock::kWarps];
};

// Thread i sums the squares of x[i], x[i + 256], … in order, so zeros appended to a row leave the sum's bits unchanged.
SLIP_DEVICE void rms_norm(const RowBlock& block, const RmsNorm& job, RmsNormShared& shared) {
  if (job.row_weights.skips(block.x)) return;
  const std::int64_t row = job.rows == nullptr ? block.x : job.rows[block.x];
  const float* x = job.x + row * job.x_stride;
  const float* weight = job.row_weights.find(job.weight, block.x);
  RowBlock::Per<float> squares;
  block.each_apart([&](int thread) {
    float sum = 0;
    for (std::int64_t i = thread; i < job.n; i += kRowThreads) sum = fused(x[i], x[i], sum);
    squares[thread] = sum;
  });
  const float total = block.combine(squares, shared.slots, Add{});
  const float inverse = 1.0F / sqrtf(total / static_cast<float>(job.n) + job.eps);
  constexpr int kAtOnce = 8;  // elements that a thread loads before it stores any, which waits for memory once
  block.each_apart([&](int thread) {
    for (std::int64_t first = thread; first < depth_tiles(job.n) * kTileDepth; first += kAtOnce * kRowThreads) {
      float values[kAtOnce];
      SLIP_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const std::int64_t i = first + j * kRowThreads;
        values[j] = i < job.n ? x[i] * inverse * weight[i] : 0.0F;
      }
      SLIP_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const std::int64_t i = first + j * kRowThreads;
        if (job.y != nullptr && i < job.n) job.y[block.x * job.y_stride + i] = values[j];
        if (job.activations == nullptr || i >= depth_tiles(job.n) * kTileDepth) continue;
        job.activations[activation_at(block.x, i, job.n)] = round_to_bf16(values[j]);
      }
    }
  });
}

// One layer's pages of keys and values on a device, bfloat16. Page p starts at base + p · page_stride. It holds keys
// [n_kv_heads, page_tokens, head_dim], then values of the same shape; the host has another layout (PagedKv).
struct DeviceKv {
  std::uint16_t* base = nullptr;
  std::int64_t page_stride = 0;  // in elements
  std::int32_t n_kv_heads = 0, head_dim = 0, page_tokens = 16;

  // The offset from `base` of the first element of a key; its value lies value_offset() elements further. `slot`: of
  // the sequence or of the page.
  SLIP_DEVICE std::int64_t at(std::int32_t page, std::int32_t slot, std::int32_t kv_head) const {
    return page * page_stride + (std::int64_t{kv_head} * page_tokens + slot % page_tokens) * head_dim;
  }
  SLIP_DEVICE std::int64_t value_offset() const { return std::int64_t{n_kv_heads} * page_tokens * head_dim; }
};

// Cache slots [begin, end).
struct DeviceRange {
  std::int32_t begin = 0, end = 0;
};

// One query row's view of the cache: the device form of AttentionRow, which explains the fields (kernels/attention.h).
struct DeviceRow {
  const std::int32_t* pages = nullptr;  // null: unused row of a captured graph; nothing is stored
  const std::uint64_t* ancestors = nullptr;
  std::int32_t n_words = 0;  // length of `ancestors`; 0: a chain
  std::int32_t n_committed = 0;
  std::int32_t own_index = 0;
  std::int32_t window = 0;
  const DeviceRange* visible = nullptr;
  std::int32_t n_ranges = 0;  // length of `visible`; 0: all committed slots
};

// The step after the product that computes a layer's queries, keys and values. Queries and keys get their RMS norm, in
// models that have one, and their rotary embedding (RoPE). Keys and values go to their pages in bfloat16. Queries are
// written back to `qkv`; its keys and values stay unchanged. Attention multiplies values that a row must not see by
// zero, so all stored values are finite. A value that is not becomes zero and makes its key NaN, so rows that see it
// become NaN.
struct RotateAndStore {
  float* qkv = nullptr;     // [n_rows, (n_heads + 2 n_kv_heads) · head_dim]: queries, keys, values
  std::int64_t stride = 0;  // of qkv's rows, in floats
  std::int32_t n_heads = 0;
  DeviceKv kv;
  const DeviceRow* rows = nullptr;             // [n_rows]
  const std::int32_t* positions = nullptr;     // [n_rows]
  const float *cos = nullptr, *sin = nullptr;  // [max_positions, head_dim / 2]
  Weight<float> q_norm, k_norm;                // [head_dim]; empty: the model has none
  float eps = 0;
  RowWeights row_weights;
};

// The source and destination of one head of a row, and its operations.
struct HeadPlace {
  const float* from;     // [head_dim]
  float* query;          // destination of a query; null for a key or value
  std::uint16_t* cache;  // destination of a key or value; null for a query
  const float* norm;     // [head_dim] weight of its RMS norm; null: none
  bool turned;           // rotated to the row's position: a query or key
  const float* value;    // [head_dim] of a key: its value; null for a query or value
};

// `head`: index among the row's queries, then its keys, then its values.
SLIP_DEVICE HeadPlace place_of(const RotateAndStore& job, std::int32_t row, std::int32_t head) {
  const DeviceKv& kv = job.kv;
  float* at = job.qkv + row * job.stride + std::int64_t{head} * kv.head_dim;
  if (head < job.n_heads) return {at, at, nullptr, job.row_weights.find(job.q_norm, row), true, nullptr};
  const DeviceRow& view = job.rows[row];
  const std::int32_t slot = view.n_committed + view.own_index, index = head - job.n_heads;
  const bool key = index < kv.n_kv_heads;
  std::uint16_t* cache = kv.base + kv.at(view.pages[slot / kv.page_tokens], slot, index % kv.n_kv_heads);
  if (!key) return {at, nullptr, cache + kv.value_offset(), nullptr, false, nullptr};
  return {
      at, nullptr, cache, job.row_weights.find(job.k_norm, row), true, at + std::int64_t{kv.n_kv_heads} * kv.head_dim};
}

SLIP_DEVICE bool is_finite_bf16(std::uint16_t bits) {
  return (bits & 0x7F80U) != 0x7F80U;
}
SLIP_DEVICE void put(const HeadPlace& place, std::int32_t i, float value) {
  if (place.query != nullptr) {
    place.query[i] = value;
    return;
  }
  const std::uint16_t bits = round_to_bf16(value);
  const bool is_value = place.value == nullptr;
  place.cache[i] = is_value && !is_finite_bf16(bits) ? std::uint16_t{0} : bits;
}

// The sums over a head that its lanes need: of its squares, and of its value's elements that are not finite.
struct HeadSums {
  float squares = 0;
  std::int32_t broken = 0;
};

// One lane's part of a head: normalizes, rotates and stores the pairs (i, i + head_dim / 2).
SLIP_DEVICE void turn_head(const RotateAndStore& job, const HeadPlace& place, std::int64_t position,
                           const HeadSums& sums, int lane) {
  const float inverse = 1.0F / sqrtf(sums.squares / static_cast<float>(job.kv.head_dim) + job.eps);
  const std::int32_t half = job.kv.head_dim / 2;
  for (std::int32_t i = lane; i < half; i += kWarp) {
    float a = place.from[i], b = place.from[i + half];
    if (place.norm != nullptr) {
      a = a * inverse * place.norm[i];
      b = b * inverse * place.norm[i + half];
    }
    if (place.turned) {
      const float c = job.cos[position * half + i], s = job.sin[position * half + i];
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
    if (sums.broken > 0) a = b = float_of(0x7FC00000U);
    put(place, i, a);
    put(place, i + half, b);
  }
}

// Grid (row, y): a warp for each of the heads from y · warps on.
SLIP_DEVICE void rotate_and_store(const RowBlock& block, const RotateAndStore& job) {
  if (job.rows[block.x].pages == nullptr) return;
  const std::int32_t n = job.n_heads + 2 * job.kv.n_kv_heads, first = block.y * RowBlock::kWarps;
  RowBlock::Per<float> squares;
  RowBlock::Per<std::int32_t> broken;
  block.each_apart([&](int thread) {
    const std::int32_t head = first + thread / kWarp;
    squares[thread] = 0;
    broken[thread] = 0;
    if (head >= n) return;
    const HeadPlace place = place_of(job, block.x, head);
    for (std::int32_t i = thread % kWarp; i < job.kv.head_dim; i += kWarp) {
      if (place.norm != nullptr) squares[thread] = fused(place.from[i], place.from[i], squares[thread]);
      if (place.value != nullptr) broken[thread] += is_finite_bf16(round_to_bf16(place.value[i])) ? 0 : 1;
    }
  });
  block.combine_in_warps(squares, Add{});
  block.combine_in_warps(broken, Add{});
  block.each_apart([&](int thread) {
    const std::int32_t head = first + thread / kWarp;
    if (head >= n) return;
    const HeadSums sums{squares[thread], broken[thread]};
    turn_head(job, place_of(job, block.x, head), job.positions[block.x], sums, thread % kWarp);
  });
}
// The grid's size along y.
SLIP_DEVICE int head_groups(const RotateAndStore& job) {
  return (job.n_heads + 2 * job.kv.n_kv_heads + RowBlock::kWarps - 1) / RowBlock::kWarps;
}

}  // namespace slip::kernels::cuda
