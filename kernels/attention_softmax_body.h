// SPDX-License-Identifier: Apache-2.0
// Online softmax of sixteen queries at a time; included by the source file of the AMX class.
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

// 2^x: 2^n · 2^r, n the integer below and a polynomial of degree 3 in r that is 1 at 0, fitted to the least relative
// error, 8.6e-5: far below the rounding to bfloat16 that follows. 0 of −∞, ∞ of ∞, and NaN is kept.
SLIP_LANES Lanes power_of_two(const Lanes& x) {
  constexpr int kBelow = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const Part zero{}, r = _mm512_reduce_ps(x.part[0], kBelow);  // 0 of an infinity
  Part sum = fused(zero + 0x1.3baadp-4F, r, zero + 0x1.d23772p-3F);
  sum = fused(sum, r, zero + 0x1.63e65ap-1F);
  sum = fused(sum, r, zero + 1.0F);
  return {_mm512_scalef_ps(sum, x.part[0])};  // of its second it takes the integer below
}

// Where the softmax of a register's queries stands. Weights are powers of two, and relative to a base: a query's
// greatest score of the first block it sees, raised when weights outgrow it. The sums are thus seldom rescaled, as in
// FlashAttention-4 (Online softmax: Milakov and Gimelshein, 2018), and when is for a query's own scores to say.
struct Softmax {
  alignas(64) float bases[kLanes];           // query by query; −∞ before the first
  alignas(64) float totals[kLanes][kLanes];  // of weights, lanes of a query's yet to be summed
};
// A lane's sum of one block's weights at which a base is raised: far from the greatest number, whatever the values.
constexpr float kOutgrown = 0x1p20F;

SLIP_LANES void begin(Softmax& softmax) {
  store(softmax.bases, least_score());
  for (float* total : softmax.totals) store(total, broadcast(0));
}

// Queries that have no base yet.
SLIP_LANES __mmask16 without_base(const Softmax& softmax) {
  return _mm512_cmp_ps_mask(load(softmax.bases).part[0], least_score().part[0], _CMP_EQ_OQ);
}

// Raises the bases of some queries to their greatest scores; returns the factors of what was summed before.
SLIP_LANES Lanes raise_bases(__mmask16 which, const Lanes& greatest, Softmax& softmax) {
  // Infinities have no difference, and a query that sees nothing but −∞ has a base all the same.
  const Lanes finite = larger(broadcast(-__FLT_MAX__), greatest);
  const Lanes before = load(softmax.bases), base = where(which, finite, before);
  const Lanes shrink = where(which, power_of_two(before - base), broadcast(1));
  store(softmax.bases, base);
  alignas(64) float factors[kLanes];
  store(factors, shrink);
  for (int query = 0; query < kLanes; ++query) {
    float* total = softmax.totals[query];
    store(total, load(total) * broadcast(factors[query]));
  }
  return shrink;
}

}  // namespace
}  // namespace slip::kernels
