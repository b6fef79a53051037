// SPDX-License-Identifier: Apache-2.0
// Online softmax of sixteen queries at a time, included by the AMX class's source file.
#pragma once

#include "kernels/lanes.h"

namespace slip::kernels {
namespace {

// Sets flush-to-zero for denormals while it lives. TDPBF16PS always treats denormals as zero (Intel's manual), so the
// vector code around it must too.
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

// 2^x = 2^n · 2^r with n = floor(x). 2^r is a polynomial of degree 3, exactly 1 at r = 0, fitted to a relative error of
// 8.6e-5; rounding to bfloat16 is far coarser. 2^−∞ = 0, 2^∞ = ∞, NaN stays NaN.
SLIP_LANES Lanes power_of_two(const Lanes& x) {
  constexpr int kBelow = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const Part zero{}, r = _mm512_reduce_ps(x.part[0], kBelow);  // r is 0 for an infinity
  Part sum = fused(zero + 0x1.3baadp-4F, r, zero + 0x1.d23772p-3F);
  sum = fused(sum, r, zero + 0x1.63e65ap-1F);
  sum = fused(sum, r, zero + 1.0F);
  return {_mm512_scalef_ps(sum, x.part[0])};  // scalef takes the floor of its second operand
}

// The softmax state of a register's queries (online softmax: Milakov and Gimelshein, 2018). Weights are powers of two
// relative to a per-query base: the greatest score of the first block it sees. The base rises only when weights exceed
// a limit, so sums are seldom rescaled, as in FlashAttention-4. A rescale depends on the query's own scores only.
struct Softmax {
  alignas(64) float bases[kLanes];           // per query; −∞ before the first block
  alignas(64) float totals[kLanes][kLanes];  // weight sums per query, not yet summed over lanes
};
// A base is raised when a lane's sum of one block's weights reaches this, far below the float32 overflow.
constexpr float kOutgrown = 0x1p20F;

SLIP_LANES void begin(Softmax& softmax) {
  store(softmax.bases, least_score());
  for (float* total : softmax.totals) store(total, broadcast(0));
}

// The queries that have no base yet.
SLIP_LANES __mmask16 without_base(const Softmax& softmax) {
  return _mm512_cmp_ps_mask(load(softmax.bases).part[0], least_score().part[0], _CMP_EQ_OQ);
}

// Raises the bases of some queries to their greatest scores; returns the factors of their earlier sums.
SLIP_LANES Lanes raise_bases(__mmask16 which, const Lanes& greatest, Softmax& softmax) {
  // Infinities have no difference. A query that sees only −∞ still gets a finite base.
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
