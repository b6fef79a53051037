// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/elementwise.h"
#include "kernels/exp.h"

namespace slip::kernels {
namespace {

constexpr std::int64_t kLanes = 16;   // columns per packed block
constexpr std::int64_t kBlocks = 4;   // column blocks in flight
constexpr std::int64_t kRowTile = 4;  // rows that share each weight load

std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

float source_value(const void* source, Dtype dtype, std::int64_t index) {
  switch (dtype) {
    case Dtype::kFloat32:
      return static_cast<const float*>(source)[index];
    case Dtype::kBFloat16:
      return bf16_to_float(static_cast<const std::uint16_t*>(source)[index]);
    case Dtype::kFloat16:
      return f16_to_float(static_cast<const std::uint16_t*>(source)[index]);
  }
  return 0;
}

// One tile: R rows × 4 blocks of 16 columns, accumulated over k in order.
template <int R>
__attribute__((target("avx512f,avx512bf16"))) void tile_bf16_avx512(const std::uint16_t* w, std::int64_t pairs,
                                                                    std::int64_t block_stride, const std::uint32_t* x,
                                                                    std::int64_t x_stride, int n_blocks, float* y,
                                                                    std::int64_t y_stride, std::int64_t columns,
                                                                    bool accumulate) {
  __m512 sums[R][kBlocks];
  for (int r = 0; r < R; ++r)
    for (int b = 0; b < kBlocks; ++b) sums[r][b] = _mm512_setzero_ps();
  if (n_blocks == kBlocks) {
    for (std::int64_t p = 0; p < pairs; ++p) {
      __m512i weights[kBlocks];
      for (int b = 0; b < kBlocks; ++b) weights[b] = _mm512_loadu_si512(w + b * block_stride + p * 32);
      for (int r = 0; r < R; ++r) {
        const __m512i value = _mm512_set1_epi32(static_cast<int>(x[r * x_stride + p]));
        for (int b = 0; b < kBlocks; ++b)
          sums[r][b] = _mm512_dpbf16_ps(sums[r][b], (__m512bh)weights[b], (__m512bh)value);
      }
    }
  } else {
    for (std::int64_t p = 0; p < pairs; ++p) {
      for (int b = 0; b < n_blocks; ++b) {
        const __m512i weights = _mm512_loadu_si512(w + b * block_stride + p * 32);
        for (int r = 0; r < R; ++r) {
          sums[r][b] = _mm512_dpbf16_ps(sums[r][b], (__m512bh)weights,
                                        (__m512bh)_mm512_set1_epi32(static_cast<int>(x[r * x_stride + p])));
        }
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int b = 0; b < n_blocks; ++b) {
      const std::int64_t left = columns - b * kLanes;
      const __mmask16 mask = left >= kLanes ? 0xFFFF : static_cast<__mmask16>((1U << left) - 1);
      float* out = y + r * y_stride + b * kLanes;
      const __m512 sum = accumulate ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), sums[r][b]) : sums[r][b];
      _mm512_mask_storeu_ps(out, mask, sum);
    }
  }
}

// The same tile for machines without bf16 instructions: weights widened to float32, k in the same order.
SLIP_CLONES void tile_bf16_plain(const std::uint16_t* w, std::int64_t pairs, const std::uint16_t* x,
                                 std::int64_t x_stride, std::int64_t n_rows, float* sums) {
  for (std::int64_t r = 0; r < n_rows; ++r) {
    float acc[kLanes] = {};
    for (std::int64_t p = 0; p < pairs; ++p) {
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t bits = static_cast<std::uint32_t>(x[r * x_stride + 2 * p + half]) << 16;
        float value;
        std::memcpy(&value, &bits, 4);
        for (int lane = 0; lane < kLanes; ++lane) {
          const std::uint32_t weight_bits = static_cast<std::uint32_t>(w[p * 32 + 2 * lane + half]) << 16;
          float weight;
          std::memcpy(&weight, &weight_bits, 4);
          acc[lane] += value * weight;
        }
      }
    }
    std::memcpy(sums + r * kLanes, acc, sizeof acc);
  }
}

SLIP_CLONES void tile_f32(const float* w, std::int64_t n_in, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                          float* sums) {
  for (std::int64_t r = 0; r < n_rows; ++r) {
    float acc[kLanes] = {};
    for (std::int64_t k = 0; k < n_in; ++k) {
      const float value = x[r * x_stride + k];
      for (int lane = 0; lane < kLanes; ++lane) acc[lane] += value * w[k * kLanes + lane];
    }
    std::memcpy(sums + r * kLanes, acc, sizeof acc);
  }
}

void store_block(const float* sums, std::int64_t n_rows, std::int64_t columns, float* y, std::int64_t y_stride,
                 bool accumulate) {
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      y[r * y_stride + c] = accumulate ? y[r * y_stride + c] + sums[r * kLanes + c] : sums[r * kLanes + c];
    }
  }
}

IsaClass detect() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512f")) return IsaClass::kAvx512Bf16;
  if (__builtin_cpu_supports("avx512f")) return IsaClass::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return IsaClass::kAvx2;
  return IsaClass::kScalar;
}

}  // namespace

IsaClass isa_class() {
  static const IsaClass isa = detect();
  return isa;
}

const char* isa_class_name(IsaClass isa) {
  switch (isa) {
    case IsaClass::kScalar:
      return "scalar";
    case IsaClass::kAvx2:
      return "avx2";
    case IsaClass::kAvx512:
      return "avx512";
    case IsaClass::kAvx512Bf16:
      return "avx512-bf16";
    case IsaClass::kAmxBf16:
      return "amx-bf16";
  }
  return "?";
}

void PackedMatrix::Free::operator()(std::byte* p) const {
  std::free(p);
}

PackedMatrix::PackedMatrix(const void* source, Dtype source_dtype, std::int64_t n_out, std::int64_t n_in, Dtype compute)
    : n_out_(n_out), n_in_(n_in), dtype_(compute) {
  const std::int64_t blocks = (n_out + kLanes - 1) / kLanes;
  const std::int64_t depth = compute == Dtype::kBFloat16 ? round_up(n_in, 2) : n_in;
  bytes_ = static_cast<std::size_t>(blocks * kLanes * depth) * dtype_bytes(compute);
  const std::size_t page = std::size_t{2} << 20;
  const std::size_t size = (std::max<std::size_t>(bytes_, 64) + page - 1) / page * page;
  storage_.reset(static_cast<std::byte*>(std::aligned_alloc(page, size)));
  ::madvise(storage_.get(), size, MADV_HUGEPAGE);
  std::memset(storage_.get(), 0, bytes_);
  for (std::int64_t o = 0; o < n_out; ++o) {
    const std::int64_t block = o / kLanes, lane = o % kLanes;
    for (std::int64_t k = 0; k < n_in; ++k) {
      const float value = source_value(source, source_dtype, o * n_in + k);
      if (compute == Dtype::kBFloat16) {
        reinterpret_cast<std::uint16_t*>(storage_.get())[block * kLanes * depth + k / 2 * 32 + lane * 2 + k % 2] =
            float_to_bf16(value);
      } else {
        reinterpret_cast<float*>(storage_.get())[block * kLanes * depth + k * kLanes + lane] = value;
      }
    }
  }
}

std::size_t matmul_scratch_bytes(std::int64_t n_rows, std::int64_t n_in) {
  return static_cast<std::size_t>(n_rows * round_up(n_in, 32)) * sizeof(std::uint16_t) + 64;
}

namespace {

// Round to nearest even, NaN kept: float_to_bf16 over a row, written so that it vectorises.
SLIP_CLONES void round_to_bf16(const float* x, std::int64_t n, std::uint16_t* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
    out[i] = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet_nan : rounded);
  }
}

void multiply_bf16(const PackedMatrix& weight, const std::uint16_t* x, std::int64_t depth, std::int64_t n_rows,
                   float* y, std::int64_t y_stride, bool accumulate, ThreadPool& pool) {
  const std::int64_t group_columns = kLanes * kBlocks;
  const std::int64_t groups = (weight.n_out() + group_columns - 1) / group_columns;
  const auto* packed = reinterpret_cast<const std::uint16_t*>(weight.data());
  const bool fast = isa_class() == IsaClass::kAvx512Bf16;
  pool.parallel_for(static_cast<std::size_t>(groups), [&](std::size_t group, int) {
    const std::int64_t first = static_cast<std::int64_t>(group) * group_columns;
    const std::int64_t columns = std::min(group_columns, weight.n_out() - first);
    const int n_blocks = static_cast<int>((columns + kLanes - 1) / kLanes);
    const std::uint16_t* w = packed + first * depth;
    for (std::int64_t r = 0; r < n_rows; r += kRowTile) {
      const std::int64_t rows = std::min(kRowTile, n_rows - r);
      float* out = y + r * y_stride + first;
      if (fast) {
        const auto* pairs = reinterpret_cast<const std::uint32_t*>(x + r * depth);
        const auto run = [&]<int R>() {
          tile_bf16_avx512<R>(w, depth / 2, kLanes * depth, pairs, depth / 2, n_blocks, out, y_stride, columns,
                              accumulate);
        };
        if (rows == 4) run.template operator()<4>();
        if (rows == 3) run.template operator()<3>();
        if (rows == 2) run.template operator()<2>();
        if (rows == 1) run.template operator()<1>();
      } else {
        for (int b = 0; b < n_blocks; ++b) {
          float sums[kRowTile * kLanes];
          tile_bf16_plain(w + b * kLanes * depth, depth / 2, x + r * depth, depth, rows, sums);
          store_block(sums, rows, std::min(kLanes, columns - b * kLanes), out + b * kLanes, y_stride, accumulate);
        }
      }
    }
  });
}

}  // namespace

void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
            std::int64_t y_stride, bool accumulate, void* scratch, ThreadPool& pool) {
  if (weight.compute_dtype() == Dtype::kBFloat16) {
    const std::int64_t depth = round_up(weight.n_in(), 2);
    auto* rounded = static_cast<std::uint16_t*>(scratch);
    for (std::int64_t r = 0; r < n_rows; ++r) {
      round_to_bf16(x + r * x_stride, weight.n_in(), rounded + r * depth);
      if (depth > weight.n_in()) rounded[r * depth + depth - 1] = 0;
    }
    multiply_bf16(weight, rounded, depth, n_rows, y, y_stride, accumulate, pool);
    return;
  }
  const std::int64_t blocks = (weight.n_out() + kLanes - 1) / kLanes;
  const auto* packed = reinterpret_cast<const float*>(weight.data());
  pool.parallel_for(static_cast<std::size_t>(blocks), [&](std::size_t block, int) {
    const std::int64_t first = static_cast<std::int64_t>(block) * kLanes;
    for (std::int64_t r = 0; r < n_rows; r += kRowTile) {
      const std::int64_t rows = std::min(kRowTile, n_rows - r);
      float sums[kRowTile * kLanes];
      tile_f32(packed + first * weight.n_in(), weight.n_in(), x + r * x_stride, x_stride, rows, sums);
      store_block(sums, rows, std::min(kLanes, weight.n_out() - first), y + r * y_stride + first, y_stride, accumulate);
    }
  });
}

}  // namespace slip::kernels
