// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VDPBF16PS, which adds two bfloat16 products to a float32 in each lane.
#include "kernels/isa_tables.h"

#if defined(__x86_64__)
#include "kernels/activations_body.h"
#include "kernels/attention_pairs_body.h"
#include "kernels/matmul_body.h"

namespace slip::kernels {
namespace {

struct DotPairStep {
  static constexpr int kStepBytes = 4;
  template <int kRows, int kBlocks>
  SLIP_LANES static void add(const std::byte* weight, const std::byte* x, std::int64_t x_stride,
                             Lanes (&sums)[kRows][kBlocks]) {
    __m512bh w[kBlocks];
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) w[b] = load_unaligned<__m512bh>(weight + b * kWeightGroupBytes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto pair = (__m512bh)_mm512_set1_epi32(load_unaligned<int>(x + r * x_stride));
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) sums[r][b].part[0] = _mm512_dpbf16_ps(sums[r][b].part[0], w[b], pair);
    }
  }
};

}  // namespace

// Activations are rounded with integer arithmetic, since VCVTNEPS2BF16 would flush subnormal numbers.
const KernelTable kAvx512Bf16Kernels = {.matmul_bf16 = matmul_tile<DotPairStep, kLongTileRows>,
                                        .bf16_tile_rows = kLongTileRows,
                                        .bf16_stretch = kStretch,
                                        .bf16_rows = paired_rows,
                                        .bf16_pair_bytes = DotPairStep::kStepBytes,
                                        .attention = attention_tile_of_pairs,
                                        .attention_rounds = true};

}  // namespace slip::kernels
#endif
