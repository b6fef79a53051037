// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/vocabulary_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

// Each body is inlined into one function per instruction set; -O3 vectorises it there.
#define SLIP_BODY [[gnu::always_inline]] inline
#if defined(__x86_64__)
#define SLIP_FOR_AVX2 [[gnu::target("avx2")]]
#define SLIP_FOR_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")]]
#else
#define SLIP_FOR_AVX2
#define SLIP_FOR_AVX512
#endif

namespace slip {

namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kBlock = 256;  // values kept between two loops: fits the L1 cache

// exp for x ≤ 0: x = n ln 2 + r with |r| ≤ ln 2 / 2, Taylor's polynomial of degree 13 in r (error below 2^−55), times
// 2^n by the exponent's bits. exp(0) is exactly 1.
SLIP_BODY double exp_nonpositive(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it leaves round(x) in the low bits
  constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b39p-40;
  constexpr std::array<double, 14> kInverseFactorial{
      1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
      1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  const double clamped = x > -708.0 ? x : -708.0;
  const double shifted = clamped * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;
  double sum = kInverseFactorial[13];
  for (int power = 12; power >= 0; --power) sum = sum * r + kInverseFactorial[static_cast<std::size_t>(power)];
  const std::int64_t exponent = std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(kRound);
  const double scale = std::bit_cast<double>((exponent + 1023) << 52);
  return x > -708.0 ? sum * scale : 0.0;
}

// The same in single precision, with degree 6: relative error below 2^−22, 0 below exp(−87).
SLIP_BODY float exp_nonpositive(float x) {
  constexpr float kRound = 0x1.8p23F;
  constexpr float kLog2E = 0x1.715476p+0F, kLn2High = 0x1.62e4p-1F, kLn2Low = 0x1.7f7d1cp-20F;
  constexpr std::array<float, 7> kInverseFactorial{1.0F, 1.0F, 1.0F / 2, 1.0F / 6, 1.0F / 24, 1.0F / 120, 1.0F / 720};
  const float clamped = x > -87.0F ? x : -87.0F;
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float sum = kInverseFactorial[6];
  for (int power = 5; power >= 0; --power) sum = sum * r + kInverseFactorial[static_cast<std::size_t>(power)];
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  return x > -87.0F ? sum * scale : 0.0F;
}

template <class Value>
SLIP_BODY double sum_body(const Value* values, std::size_t n) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  }
  for (; i < n; ++i) lanes[i % kLanes] += values[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

SLIP_BODY ExpSum exp_body(const float* logits, std::size_t n, double largest, double temperature, double* out) {
  ExpSum total;
  std::int64_t zeros = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t size = std::min(kBlock, n - begin);
    double* block = out + begin;
    for (std::size_t i = 0; i < size; ++i) {
      block[i] = exp_nonpositive((static_cast<double>(logits[begin + i]) - largest) / temperature);
    }
    for (std::size_t i = 0; i < size; ++i) zeros += block[i] == 0 ? 1 : 0;
    total.sum += sum_body(block, size);
  }
  total.has_zero = zeros > 0;
  return total;
}

SLIP_BODY double sum_exp_body(const float* logits, std::size_t n, float largest) {
  alignas(64) std::array<float, kBlock> block;
  double sum = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t size = std::min(kBlock, n - begin);
    for (std::size_t i = 0; i < size; ++i) block[i] = exp_nonpositive(logits[begin + i] - largest);
    sum += sum_body(block.data(), size);
  }
  return sum;
}

SLIP_BODY bool within_body(const double* u, const double* p, std::size_t n, double bound) {
  std::int64_t any = 0;
  for (std::size_t i = 0; i < n; ++i) any |= 1 - u[i] <= p[i] * bound ? 1 : 0;
  return any != 0;
}

// Vectors of kWidth values for the lanes of a scan. The instruction set must have registers of this width: for wider
// vectors GCC emits scalar code with a branch per value. These are vector types since GCC keeps arrays that live across
// a loop in memory.
template <std::size_t kWidth>
struct Register {
  typedef float Floats __attribute__((vector_size(4 * kWidth)));
  typedef std::int32_t Bits __attribute__((vector_size(4 * kWidth)));
};

// Scans kWidth of the lanes over the first n values of a stretch, n a multiple of kScanLanes.
template <std::size_t kWidth>
SLIP_BODY std::int32_t scan_lanes(const float* values, std::size_t n, float* maxima) {
  typedef typename Register<kWidth>::Floats Floats;
  typedef typename Register<kWidth>::Bits Bits;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats most = Floats{} - kInfinity;
  Bits whole = Bits{} - 1;
  for (std::size_t i = 0; i < n; i += kScanLanes) {
    Floats some;
    std::memcpy(&some, values + i, sizeof some);
    most = some > most ? some : most;
    whole &= some < kInfinity;
  }
  std::memcpy(maxima, &most, sizeof most);
  std::int32_t broken = 0;
  for (std::size_t lane = 0; lane < kWidth; ++lane) broken |= ~whole[lane];
  return broken;
}

// Scans all lanes over the first n values of a stretch.
template <std::size_t kWidth>
SLIP_BODY std::int32_t scan_stretch(const float* values, std::size_t n, float* maxima) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::size_t i = n / kScanLanes * kScanLanes;
  std::int32_t broken = 0;
  for (std::size_t lane = 0; lane < kScanLanes; lane += kWidth) {
    broken |= scan_lanes<kWidth>(values + lane, i, maxima + lane);
  }
  for (std::size_t lane = 0; i + lane < n; ++lane) {
    maxima[lane] = values[i + lane] > maxima[lane] ? values[i + lane] : maxima[lane];
    broken |= values[i + lane] < kInfinity ? 0 : 1;
  }
  return broken;
}

template <std::size_t kWidth>
SLIP_BODY RowScan scan_body(const float* values, std::size_t n, float* maxima) {
  std::int32_t broken = 0;
  std::size_t begin = 0, block = 0;
  for (; begin + kScanStretch <= n; begin += kScanStretch, block += kScanLanes) {
    broken |= scan_stretch<kWidth>(values + begin, kScanStretch, maxima + block);
  }
  if (begin < n) {
    broken |= scan_stretch<kWidth>(values + begin, n - begin, maxima + block);
    block += kScanLanes;
  }
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < block; ++i) largest = maxima[i] > largest ? maxima[i] : largest;
  return {largest, broken != 0};
}

// kernels::philox over many tokens at once; a test compares the two.
SLIP_BODY void uniforms_body(const RandomAddress& address, const std::int32_t* tokens, std::size_t n, double* out) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t c0 = address.output_index, c1 = static_cast<std::uint32_t>(tokens[i]);
    std::uint32_t c2 = static_cast<std::uint32_t>(RandomPurpose::kGumbel), c3 = address.choice;
    std::uint32_t key0 = static_cast<std::uint32_t>(address.seed),
                  key1 = static_cast<std::uint32_t>(address.seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = kMultiplier0 * c0, product1 = kMultiplier1 * c2;
      c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
      c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
      c1 = static_cast<std::uint32_t>(product1);
      c3 = static_cast<std::uint32_t>(product0);
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    const std::uint64_t bits = (static_cast<std::uint64_t>(c0) << 32 | c1) >> 12;
    // 52 bits as the mantissa of a number in [1, 2), minus 1: the same value as a conversion, but it vectorises.
    const double unit = std::bit_cast<double>(bits | std::bit_cast<std::uint64_t>(1.0)) - 1.0;
    out[i] = unit + 0x1p-53;
  }
}

struct Sweeps {
  ExpSum (*exps)(const float*, std::size_t, double, double, double*);
  double (*sum_exp)(const float*, std::size_t, float);
  double (*sum)(const double*, std::size_t);
  RowScan (*scan)(const float*, std::size_t, float*);
  bool (*within)(const double*, const double*, std::size_t, double);
  void (*uniforms)(const RandomAddress&, const std::int32_t*, std::size_t, double*);
};

#define SLIP_SWEEPS(name, width, target)                                                                          \
  struct name {                                                                                                   \
    target static ExpSum exps(const float* x, std::size_t n, double m, double t, double* out) {                   \
      return exp_body(x, n, m, t, out);                                                                           \
    }                                                                                                             \
    target static double sum_exp(const float* x, std::size_t n, float m) { return sum_exp_body(x, n, m); }        \
    target static double sum(const double* x, std::size_t n) { return sum_body(x, n); }                           \
    target static RowScan scan(const float* x, std::size_t n, float* out) { return scan_body<width>(x, n, out); } \
    target static bool within(const double* u, const double* p, std::size_t n, double b) {                        \
      return within_body(u, p, n, b);                                                                             \
    }                                                                                                             \
    target static void uniforms(const RandomAddress& a, const std::int32_t* ids, std::size_t n, double* out) {    \
      uniforms_body(a, ids, n, out);                                                                              \
    }                                                                                                             \
    static constexpr Sweeps kTable{exps, sum_exp, sum, scan, within, uniforms};                                   \
  }

SLIP_SWEEPS(BaselineSweeps, 4, );
SLIP_SWEEPS(Avx2Sweeps, 8, SLIP_FOR_AVX2);
SLIP_SWEEPS(Avx512Sweeps, 16, SLIP_FOR_AVX512);

const Sweeps& choose_sweeps() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (has_avx512) return Avx512Sweeps::kTable;
  if (__builtin_cpu_supports("avx2")) return Avx2Sweeps::kTable;
#endif
  return BaselineSweeps::kTable;
}

const Sweeps& sweeps() {
  static const Sweeps& chosen = choose_sweeps();
  return chosen;
}

}  // namespace

ExpSum exp_differences(std::span<const float> logits, double largest, double temperature, double* out) {
  return sweeps().exps(logits.data(), logits.size(), largest, temperature, out);
}

double sum_exp_differences(std::span<const float> logits, float largest) {
  return sweeps().sum_exp(logits.data(), logits.size(), largest);
}

double sum_in_lanes(std::span<const double> values) {
  return sweeps().sum(values.data(), values.size());
}

bool any_within(std::span<const double> u, std::span<const double> p, double bound) {
  return sweeps().within(u.data(), p.data(), u.size(), bound);
}

void open_uniforms(const RandomAddress& address, std::span<const std::int32_t> tokens, double* out) {
  sweeps().uniforms(address, tokens.data(), tokens.size(), out);
}

RowScan scan_row(std::span<const float> values, std::vector<float>& block_maxima) {
  block_maxima.resize((values.size() + kScanStretch - 1) / kScanStretch * kScanLanes);
  return sweeps().scan(values.data(), values.size(), block_maxima.data());
}

std::size_t index_of_largest(std::span<const float> values, std::span<const float> block_maxima, float largest) {
  const auto block =
      static_cast<std::size_t>(std::find(block_maxima.begin(), block_maxima.end(), largest) - block_maxima.begin());
  const auto from = values.begin() + static_cast<std::ptrdiff_t>(block / kScanLanes * kScanStretch);
  return static_cast<std::size_t>(std::find(from, values.end(), largest) - values.begin());
}

}  // namespace slip
