// SPDX-License-Identifier: Apache-2.0
// The tensor-core instruction mma.m16n8k16: C [16, 8] += A [16, 16] · B [16, 8], bfloat16 operands and float32 sums.
// The 32 lanes of a warp hold the tiles (PTX ISA, "Matrix Fragments for mma.m16n8k16"); lane 4 g + t is called (g, t)
// here. No element of C depends on other rows of A or other columns of B.
#pragma once

#include "kernels/cuda/numbers.cuh"

namespace slip::kernels::cuda {

// One lane's parts. A pair is two neighbours along the depth of 16, the first in the low half.
struct alignas(16) OperandA {  // row g depths 2 t, row g + 8 the same depths, row g depths 2 t + 8, row g + 8 these
  std::uint32_t pairs[4];
};
struct alignas(8) OperandB {  // column g: depths 2 t, depths 2 t + 8
  std::uint32_t pairs[2];
};
struct SumPart {  // row g columns 2 t and 2 t + 1, row g + 8 the same
  float of[4];
};

#if defined(__CUDA_ARCH__)
SLIP_DEVICE void multiply_tile(const OperandA& a, const OperandB& b, SumPart& c) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c.of[0]), "+f"(c.of[1]), "+f"(c.of[2]), "+f"(c.of[3])
      : "r"(a.pairs[0]), "r"(a.pairs[1]), "r"(a.pairs[2]), "r"(a.pairs[3]), "r"(b.pairs[0]), "r"(b.pairs[1]));
}
#else
// The host version for 32 lanes: gathers the operands, then adds one product at a time.
inline float half_of(std::uint32_t pair, int second) {
  return float_of(second != 0 ? pair & 0xFFFF0000U : pair << 16);
}
template <class Sums>
void multiply_tile_of_warp(const OperandA* a, const OperandB* b, const Sums& c) {
  float rows[16][16], columns[8][16];
  for (int k = 0; k < 16; ++k) {
    for (int row = 0; row < 16; ++row) {
      rows[row][k] = half_of(a[row % 8 * 4 + k % 8 / 2].pairs[row / 8 + k / 8 * 2], k % 2);
    }
    for (int column = 0; column < 8; ++column) {
      columns[column][k] = half_of(b[column * 4 + k % 8 / 2].pairs[k / 8], k % 2);
    }
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = c(lane).of[i];
      // A product of two bfloat16 is exact in float32, so multiply-then-add rounds once, like a fused operation.
      for (int k = 0; k < 16; ++k) sum = sum + rows[row][k] * columns[column][k];
      c(lane).of[i] = sum;
    }
  }
}
#endif

// One instruction in every warp. a(thread) and b(thread) return operands, c(thread) a reference to the sums.
template <int kThreads, class A, class B, class C>
SLIP_DEVICE void multiply_in_warps(const Block<kThreads>& /*block*/, const A& a, const B& b, const C& c) {
#if defined(__CUDA_ARCH__)
  const int thread = static_cast<int>(threadIdx.x);
  multiply_tile(a(thread), b(thread), c(thread));
#else
  for (int first = 0; first < kThreads; first += kWarp) {
    OperandA as[kWarp];
    OperandB bs[kWarp];
    for (int lane = 0; lane < kWarp; ++lane) {
      as[lane] = a(first + lane);
      bs[lane] = b(first + lane);
    }
    multiply_tile_of_warp(as, bs, [&](int lane) -> SumPart& { return c(first + lane); });
  }
#endif
}

// Two numbers as a pair of an operand.
SLIP_DEVICE std::uint32_t pair_of(float first, float second) {
  return std::uint32_t{round_to_bf16(first)} | std::uint32_t{round_to_bf16(second)} << 16;
}

}  // namespace slip::kernels::cuda
