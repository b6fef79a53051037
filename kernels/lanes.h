// SPDX-License-Identifier: Apache-2.0
// Sixteen float32 lanes on any machine: one AVX-512 register, two AVX2 registers or four SSE registers, by the flags of
// the including source file. Everything has internal linkage, and no inline function of the standard library is used.
// Otherwise the linker could use code compiled for a newer CPU everywhere.
#pragma once

#include <cstdint>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SLIP_LANES [[gnu::always_inline, maybe_unused]] inline

namespace slip::kernels {
namespace {

constexpr int kLanes = 16;
#if defined(__AVX512F__)
constexpr int kPartLanes = 16;
#elif defined(__AVX2__)
constexpr int kPartLanes = 8;
#else
constexpr int kPartLanes = 4;
#endif
constexpr int kParts = kLanes / kPartLanes;

typedef float Part __attribute__((vector_size(kPartLanes * 4)));
typedef std::int32_t IntPart __attribute__((vector_size(kPartLanes * 4)));
typedef std::uint32_t BitPart __attribute__((vector_size(kPartLanes * 4)));
typedef std::uint16_t HalfPart __attribute__((vector_size(kPartLanes * 2)));

struct Lanes {
  Part part[kParts];
};

template <class F>
SLIP_LANES Lanes each_part(const F& make) {
  Lanes out;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) out.part[i] = make(i);
  return out;
}

template <class P>
SLIP_LANES P load_unaligned(const void* from) {
  P out;
  __builtin_memcpy(&out, from, sizeof out);
  return out;
}

SLIP_LANES Lanes broadcast(float value) {
  return each_part([&](int) { return value - Part{}; });
}
SLIP_LANES Lanes load(const float* from) {
  return each_part([&](int i) { return load_unaligned<Part>(from + i * kPartLanes); });
}
SLIP_LANES void store(float* to, const Lanes& x) {
  __builtin_memcpy(to, &x, sizeof x);
}

// Loads a value once for several operations. GCC would otherwise repeat the load in each, and loads limit the inner
// loops.
SLIP_LANES Lanes load_once(const float* from) {
  Lanes x = load(from);
#if defined(__AVX512F__)
  for (Part& part : x.part) asm("" : "+v"(part));
#elif defined(__x86_64__)
  for (Part& part : x.part) asm("" : "+x"(part));
#endif
  return x;
}

// The first n (< 16) of 16 values, the others zero.
SLIP_LANES Lanes load_first(const float* from, std::int64_t n) {
  alignas(64) float buffer[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = from[i];
  return load(buffer);
}
SLIP_LANES void store_first(float* to, const Lanes& x, std::int64_t n) {
  alignas(64) float buffer[kLanes];
  store(buffer, x);
  for (std::int64_t i = 0; i < n; ++i) to[i] = buffer[i];
}

SLIP_LANES Lanes operator+(const Lanes& a, const Lanes& b) {
  return each_part([&](int i) { return a.part[i] + b.part[i]; });
}
SLIP_LANES Lanes operator-(const Lanes& a, const Lanes& b) {
  return each_part([&](int i) { return a.part[i] - b.part[i]; });
}
SLIP_LANES Lanes operator*(const Lanes& a, const Lanes& b) {
  return each_part([&](int i) { return a.part[i] * b.part[i]; });
}
SLIP_LANES Lanes operator/(const Lanes& a, const Lanes& b) {
  return each_part([&](int i) { return a.part[i] / b.part[i]; });
}
// `b` where b > a, else `a`. A NaN in `b` is ignored.
SLIP_LANES Lanes larger(const Lanes& a, const Lanes& b) {
  return each_part([&](int i) { return b.part[i] > a.part[i] ? b.part[i] : a.part[i]; });
}

// a · b + c with one rounding if the machine has FMA. It is explicit, not left to the compiler, so all kernels of one
// instruction class round alike.
SLIP_LANES Part fused(const Part& a, const Part& b, const Part& c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
SLIP_LANES Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_part([&](int i) { return fused(a.part[i], b.part[i], c.part[i]); });
}

// c = a · b + c as fused(), in c's register. GCC may choose a form that overwrites a or b; the extra moves then spill
// registers in kernels whose sums fill nearly all of them.
SLIP_LANES Part fused_in_place(const Part& a, const Part& b, Part c) {
#if defined(__FMA__) && !defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
#else
  return fused(a, b, c);
#endif
}
SLIP_LANES Lanes fused_in_place(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_part([&](int i) { return fused_in_place(a.part[i], b.part[i], c.part[i]); });
}

// The first (lower) and second value of each of 16 bfloat16 pairs, one pair per 32-bit lane. bfloat16 is the upper half
// of a float32.
SLIP_LANES Lanes first_of_pairs(const Lanes& pairs) {
  return each_part([&](int i) { return reinterpret_cast<Part>(reinterpret_cast<BitPart>(pairs.part[i]) << 16); });
}
SLIP_LANES Lanes second_of_pairs(const Lanes& pairs) {
  return each_part([&](int i) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    BitPart half = reinterpret_cast<BitPart>(pairs.part[i]) >> 16;
    asm("" : "+x"(half));  // no mask: its register would leave one too few for the sums
    return reinterpret_cast<Part>(half << 16);
#else
    return reinterpret_cast<Part>(reinterpret_cast<BitPart>(pairs.part[i]) & 0xFFFF0000U);
#endif
  });
}

// Rounds to the nearest bfloat16, ties to even, NaN kept. The value is in the upper halves; the lower halves are zero.
SLIP_LANES Lanes round_to_bf16(const Lanes& x) {
  return each_part([&](int i) {
    const auto bits = reinterpret_cast<BitPart>(x.part[i]);
    const BitPart rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
    const BitPart quiet = bits | 0x400000U;
    const auto out = x.part[i] == x.part[i] ? rounded : quiet;
    return reinterpret_cast<Part>(out & 0xFFFF0000U);
  });
}
SLIP_LANES void store_bf16(std::uint16_t* to, const Lanes& x) {
  const Lanes rounded = round_to_bf16(x);
  for (int i = 0; i < kParts; ++i) {
    const auto half = __builtin_convertvector(reinterpret_cast<BitPart>(rounded.part[i]) >> 16, HalfPart);
    __builtin_memcpy(to + i * kPartLanes, &half, sizeof half);
  }
}

template <int kBy, int... kLane>
SLIP_LANES Part rotated(const Part& x, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, x, (kLane + kBy) % kPartLanes...);
}
template <int kBy, class Combine>
SLIP_LANES Part fold(Part x, const Combine& combine) {
  if constexpr (kBy < kPartLanes) x = combine(x, rotated<kBy>(x, std::make_integer_sequence<int, kPartLanes>()));
  if constexpr (kBy > 1) return fold<kBy / 2>(x, combine);
  return x;
}
// Combines all lanes in a fixed tree: lane i with i + 8, then i + 4, i + 2, i + 1.
template <class Combine>
SLIP_LANES float reduce(Lanes x, const Combine& combine) {
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.part[i] = combine(x.part[i], x.part[i + half]);
  }
  return fold<kPartLanes / 2>(x.part[0], combine)[0];
}
SLIP_LANES float sum_lanes(const Lanes& x) {
  return reduce(x, [](const Part& a, const Part& b) { return a + b; });
}
SLIP_LANES float max_lanes(const Lanes& x) {
  return reduce(x, [](const Part& a, const Part& b) { return b > a ? b : a; });
}

// e^x to about one unit in the last place: 2^n · e^r with |r| ≤ ln 2 / 2 (Cody and Waite, 1980); Taylor polynomial of
// degree 7, remainder below 6e-9. Zero below the smallest normal number; constant above 88.37.
SLIP_LANES Part exponential(const Part& x) {
  constexpr float kLowest = -87.33654F, kHighest = 88.376F;
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 · 2^23: adding it leaves no fraction bits
  // kLn2High has few significant bits, so n · kLn2High is exact
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  const Part zero{};
  Part bounded = x < kHighest ? x : zero + kHighest;
  bounded = bounded > kLowest ? bounded : zero + kLowest;
  const Part shifted = fused(bounded, zero + 1.44269504F, zero + kRoundToInteger);
  const Part n = shifted - kRoundToInteger;
  const Part r = fused(n, zero - kLn2Low, fused(n, zero - kLn2High, bounded));
  Part sum = zero + 1.0F / 5040;
  sum = fused(sum, r, zero + 1.0F / 720);
  sum = fused(sum, r, zero + 1.0F / 120);
  sum = fused(sum, r, zero + 1.0F / 24);
  sum = fused(sum, r, zero + 1.0F / 6);
  sum = fused(sum, r, zero + 0.5F);
  sum = fused(sum, r, zero + 1.0F);
  sum = fused(sum, r, zero + 1.0F);
  const auto power = reinterpret_cast<Part>((reinterpret_cast<IntPart>(shifted) + 127) << 23);
  const Part result = x < kLowest ? zero : sum * power;
  return x == x ? result : x;
}
SLIP_LANES Lanes exponential(const Lanes& x) {
  return each_part([&](int i) { return exponential(x.part[i]); });
}

}  // namespace
}  // namespace slip::kernels
