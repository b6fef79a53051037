// SPDX-License-Identifier: Apache-2.0
// Softmax over bfloat16 scores, online, sixteen queries at a time; included by the source file of the AMX class.
#pragma once

#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

// TDPBF16PS takes denormal numbers for zeros and makes none, whatever MXCSR says (Intel's manual): so do the vectors
// around it.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
  unsigned before_;
};

SLIP_LANES Lanes where(__mmask16 mask, const Lanes& yes, const Lanes& no) {
  return {_mm512_mask_blend_ps(mask, no.part[0], yes.part[0])};
}
SLIP_LANES Lanes least_score() {
  return broadcast(-__builtin_inff());
}

// 2^x for x up to about 0: 2^n · 2^r, n the integer below and a polynomial of degree 4 in r that is 1 at 0, fitted to
// the least relative error, 2.9e-6: far below the rounding to bfloat16 that follows. Zero below −149; NaN is kept.
SLIP_LANES Lanes power_of_two(const Lanes& x) {
  constexpr int kBelow = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const Part zero{}, bounded = _mm512_max_ps(zero - 160.0F, x.part[0]);  // gives the second where one is NaN
  const Part r = _mm512_reduce_ps(bounded, kBelow);
  Part sum = zero + 0x1.b7f81ep-7F;
  sum = fused(sum, r, zero + 0x1.abf80ap-5F);
  sum = fused(sum, r, zero + 0x1.ee245cp-3F);
  sum = fused(sum, r, zero + 0x1.62d6c6p-1F);
  sum = fused(sum, r, zero + 1.0F);
  return {_mm512_scalef_ps(sum, bounded)};  // of its second it takes the integer below
}

// Where the softmax of sixteen queries stands. `most` is the greatest score so far, in units in which a weight is a
// power of two, and `total` the sum of the weights relative to it.
struct SoftmaxStep {
  Lanes base;    // what the weights of this block are relative to
  Lanes shrink;  // the factor of what was summed before; 1 where nothing greater came
};
// `greatest` are the block's greatest scores before scaling.
SLIP_LANES SoftmaxStep raise(const Lanes& greatest, const Lanes& scale, Lanes& most) {
  const Lanes top = larger(most, greatest * scale);
  const __mmask16 grows = _mm512_cmp_ps_mask(top.part[0], most.part[0], _CMP_GT_OQ);
  // A query that has seen nothing yet has no greatest score, and infinities have no difference.
  const Lanes base = where(_mm512_cmp_ps_mask(top.part[0], least_score().part[0], _CMP_EQ_OQ), broadcast(0), top);
  const Lanes shrink = where(grows, power_of_two(most - base), broadcast(1));
  most = top;
  return {base, shrink};
}
// Scaled and rounded first, as the greatest was: fused, a great score would differ from itself by its rounding.
SLIP_LANES Lanes softmax_weight(const Lanes& score, const Lanes& scale, const Lanes& base) {
  return power_of_two(score * scale - base);
}

// Lane i combines all lanes of rows[i], along one tree: places two quarters apart, then neighbouring quarters, places
// two apart within a quarter, neighbours.
template <class Combine>
SLIP_LANES Lanes reduce_rows(const Lanes (&rows)[kLanes], const Combine& combine) {
  // Bits 0 and 1 of a row's number, and 2 and 3, change places on the way.
  constexpr int kOrder[kLanes] = {0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15};
  Part a[8], b[4], c[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const Part first = rows[kOrder[i]].part[0], second = rows[kOrder[i + 8]].part[0];
    a[i] = combine(_mm512_shuffle_f32x4(first, second, 0x44), _mm512_shuffle_f32x4(first, second, 0xEE));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[i] = combine(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xDD));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512d first = _mm512_castps_pd(b[i]), second = _mm512_castps_pd(b[i + 2]);
    c[i] = combine(_mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
                   _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
  }
  return {combine(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xDD))};
}
SLIP_LANES Lanes sum_rows(const Lanes (&rows)[kLanes]) {
  return reduce_rows(rows, [](const Part& a, const Part& b) { return a + b; });
}
SLIP_LANES Lanes greatest_of_rows(const Lanes (&rows)[kLanes]) {
  return reduce_rows(rows, [](const Part& a, const Part& b) { return _mm512_max_ps(a, b); });
}

}  // namespace
}  // namespace slip::kernels
