// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>

#include "common/error.h"
#include "kernels/elementwise.h"
#include "tests/kernels/isa_and_dtype.h"
#include "tests/kernels/kernel_cases.h"

// The sanitizers' allocators abort on what the machine cannot give, unless told otherwise. The names are theirs.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
// NOLINTEND(readability-identifier-naming)

namespace slip::kernels {
namespace {

struct Problem {
  std::int64_t n_out = 0, n_in = 0;
  std::vector<float> weight;
  PackedMatrix packed;
};

Problem make_problem(std::int64_t n_out, std::int64_t n_in, Dtype compute, std::uint64_t seed = 1) {
  Problem problem{n_out, n_in, random_floats(static_cast<std::size_t>(n_out * n_in), seed), {}};
  problem.packed = PackedMatrix(problem.weight.data(), Dtype::kFloat32, n_out, n_in, compute);
  return problem;
}

// y [n_rows, n_out], from zero.
std::vector<float> multiply(const KernelTable& table, const PackedMatrix& weight, std::span<const float> x,
                            ThreadPool& pool) {
  const std::int64_t n_rows = std::ssize(x) / weight.n_in();
  std::vector<float> y(static_cast<std::size_t>(n_rows * weight.n_out()), -1.0F);
  const AlignedBytes memory(Activations::bytes(n_rows, weight.n_in()));
  const Activations activations(table, weight.compute_dtype(), n_rows, weight.n_in(), memory.data());
  for (std::int64_t row = 0; row < n_rows; ++row) activations.set_row(row, x.data() + row * weight.n_in());
  matmul(weight, activations, {y.data(), weight.n_out()}, pool);
  return y;
}

// Of all splits of the rows into calls, those whose result differs in a bit from one call a row.
std::string variant_row_counts(const KernelTable& table, const PackedMatrix& weight, ThreadPool& pool) {
  constexpr std::int64_t kMost = 256;
  const auto x = random_floats(static_cast<std::size_t>(kMost * weight.n_in()), 7);
  const auto n_in = static_cast<std::size_t>(weight.n_in());
  std::vector<float> singly;
  for (std::size_t row = 0; row < kMost; ++row) {
    const auto y = multiply(table, weight, std::span(x).subspan(row * n_in, n_in), pool);
    singly.insert(singly.end(), y.begin(), y.end());
  }
  std::string variant;
  for (const std::size_t n_rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 32, 33, 34, 48, 49, 64, 256}) {
    const auto y = multiply(table, weight, std::span(x).first(n_rows * n_in), pool);
    if (!same_bits(y, std::span(singly).first(y.size()))) variant += std::to_string(n_rows) + " ";
  }
  return variant;
}

class Matmul : public testing::TestWithParam<std::tuple<IsaClass, Dtype>> {
 protected:
  const KernelTable& table() const { return kernel_table(std::get<0>(GetParam())); }
  Dtype dtype() const { return std::get<1>(GetParam()); }
  float rounded(float value) const { return dtype() == Dtype::kBFloat16 ? bf16_to_float(float_to_bf16(value)) : value; }
  ThreadPool pool_{1};
};

TEST_P(Matmul, EqualsTheReferenceAtAnySize) {
  for (const std::int64_t n_in : {1, 2, 3, 15, 64, 129, 384, 1000}) {
    for (const std::int64_t n_out : {1, 16, 63, 64, 65, 130}) {
      const Problem problem = make_problem(n_out, n_in, dtype());
      const auto x = random_floats(static_cast<std::size_t>(5 * n_in), 2);
      const auto y = multiply(table(), problem.packed, x, pool_);
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t o = 0; o < n_out; ++o) {
          double sum = 0, size = 0;
          for (std::int64_t i = 0; i < n_in; ++i) {
            const double term = double{rounded(x[static_cast<std::size_t>(r * n_in + i)])} *
                                rounded(problem.weight[static_cast<std::size_t>(o * n_in + i)]);
            sum += term;
            size += std::abs(term);
          }
          ASSERT_NEAR(y[static_cast<std::size_t>(r * n_out + o)], sum, Tolerance::kMatmul * size)
              << "row " << r << " column " << o << " of " << n_out << " × " << n_in;
        }
      }
    }
  }
}

TEST_P(Matmul, GivesTheSameBitsAtAnyRowCountAndThreadCount) {
  const Problem problem = make_problem(200, 301, dtype());
  ThreadPool two(2), three(3);
  EXPECT_EQ(variant_row_counts(table(), problem.packed, pool_), "");
  EXPECT_EQ(variant_row_counts(table(), problem.packed, two), "");
  const auto x = random_floats(static_cast<std::size_t>(65 * 301), 3);
  EXPECT_TRUE(same_bits(multiply(table(), problem.packed, x, pool_), multiply(table(), problem.packed, x, three)));
}

// More activations than a cache holds: panels are taken in groups, a stretch of the depth at a time.
TEST_P(Matmul, ManyRowsOfALongDepthHaveTheBitsOfOneRow) {
  constexpr std::int64_t kRows = 256, kIn = 5203, kOut = 330;
  const Problem problem = make_problem(kOut, kIn, dtype());
  const auto x = random_floats(kRows * kIn, 8);
  const auto many = multiply(table(), problem.packed, x, pool_);
  for (const std::size_t row : {0, 31, 32, 127, 128, 200, 255}) {
    const auto alone = multiply(table(), problem.packed, std::span(x).subspan(row * kIn, kIn), pool_);
    EXPECT_TRUE(same_bits(alone, std::span(many).subspan(row * kOut, kOut))) << row;
  }
}

// A few rows times weights that no cache holds take other column blocks together than the same rows times small
// weights.
TEST_P(Matmul, TheBitsDoNotDependOnTheSizeOfTheWeights) {
  constexpr std::int64_t kIn = 1301, kOut = 1300, kFew = 130;
  const Problem large = make_problem(kOut, kIn, dtype());
  const PackedMatrix small(large.weight.data(), Dtype::kFloat32, kFew, kIn, dtype());
  ASSERT_GT(large.packed.bytes(), std::size_t{3} << 20);
  const auto x = random_floats(17 * kIn, 9);
  for (const std::size_t n_rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17}) {
    const auto from_memory = multiply(table(), large.packed, std::span(x).first(n_rows * kIn), pool_);
    const auto from_cache = multiply(table(), small, std::span(x).first(n_rows * kIn), pool_);
    for (std::size_t row = 0; row < n_rows; ++row) {
      EXPECT_TRUE(
          same_bits(std::span(from_memory).subspan(row * kOut, kFew), std::span(from_cache).subspan(row * kFew, kFew)))
          << row << " of " << n_rows;
    }
  }
}

// What the larger copy of a small model relies on: inputs that are zero and weights of such inputs change nothing.
TEST_P(Matmul, ZeroPaddingOfTheInputsChangesNoBit) {
  const Problem small = make_problem(70, 96, dtype());
  std::vector<float> wide_weight(70 * 384, 0.0F);
  for (std::size_t o = 0; o < 70; ++o) std::copy_n(&small.weight[o * 96], 96, &wide_weight[o * 384]);
  const PackedMatrix wide(wide_weight.data(), Dtype::kFloat32, 70, 384, dtype());
  const auto x = random_floats(8 * 96, 4);
  std::vector<float> wide_x(8 * 384, 0.0F);
  for (std::size_t r = 0; r < 8; ++r) std::copy_n(&x[r * 96], 96, &wide_x[r * 384]);
  EXPECT_TRUE(same_bits(multiply(table(), small.packed, x, pool_), multiply(table(), wide, wide_x, pool_)));
}

TEST_P(Matmul, AddsToWhatIsThereAndKeepsToItsStrides) {
  const Problem problem = make_problem(65, 33, dtype());
  const auto x = random_floats(3 * 40, 5);
  std::vector<float> dense;
  for (std::size_t r = 0; r < 3; ++r) dense.insert(dense.end(), &x[r * 40], &x[r * 40] + 33);
  const auto product = multiply(table(), problem.packed, dense, pool_);
  auto y = random_floats(3 * 70, 6);
  const auto before = y;
  const AlignedBytes memory(Activations::bytes(3, 33));
  const Activations activations(table(), dtype(), 3, 33, memory.data());
  for (std::size_t r = 0; r < 3; ++r) activations.set_row(static_cast<std::int64_t>(r), &x[r * 40]);
  matmul(problem.packed, activations, {y.data(), 70, /*accumulate=*/true}, pool_);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t o = 0; o < 70; ++o) {
      const float added = o < 65 ? product[r * 65 + o] : 0.0F;
      ASSERT_EQ(y[r * 70 + o], before[r * 70 + o] + added);
    }
  }
}

TEST_P(Matmul, PacksEverySourceFormat) {
  std::vector<std::uint16_t> bf16(10 * 6), f16(10 * 6);
  std::vector<float> f32(10 * 6);
  for (std::size_t i = 0; i < 60; ++i) {
    f16[i] = static_cast<std::uint16_t>(0x3C00 + i * 8);  // 1 + i / 128, exact in all three
    f32[i] = 1.0F + static_cast<float>(i) / 128;
    bf16[i] = float_to_bf16(f32[i]);
  }
  const auto x = random_floats(12, 8);
  const auto from_f32 = multiply(table(), PackedMatrix(f32.data(), Dtype::kFloat32, 10, 6, dtype()), x, pool_);
  EXPECT_TRUE(
      same_bits(from_f32, multiply(table(), PackedMatrix(bf16.data(), Dtype::kBFloat16, 10, 6, dtype()), x, pool_)));
  EXPECT_TRUE(
      same_bits(from_f32, multiply(table(), PackedMatrix(f16.data(), Dtype::kFloat16, 10, 6, dtype()), x, pool_)));
}

// Two matrices below each other, of an odd number of rows in all: the last pair is half a pair.
TEST_P(Matmul, PackingTransposedIsPackingTheTransposedMatrix) {
  for (const auto& [n_first, n_second, n_out] : {std::tuple{1, 2, 1}, {40, 33, 70}, {64, 64, 128}, {17, 18, 130}}) {
    const std::int64_t n_in = n_first + n_second;
    auto rows = random_floats(static_cast<std::size_t>(n_in * n_out), 3);
    rows[0] = std::numeric_limits<float>::quiet_NaN();
    rows[1 % rows.size()] = 1e-40F;
    std::vector<float> columns(rows.size());
    for (std::int64_t r = 0; r < n_in; ++r) {
      for (std::int64_t c = 0; c < n_out; ++c) columns[c * n_in + r] = rows[r * n_out + c];
    }
    const std::vector<MatrixRows> parts{{rows.data(), Dtype::kFloat32, n_first},
                                        {rows.data() + n_first * n_out, Dtype::kFloat32, n_second}};
    const PackedMatrix transposed = PackedMatrix::transposed(parts, n_out, dtype());
    const PackedMatrix expected(columns.data(), Dtype::kFloat32, n_out, n_in, dtype());
    ASSERT_EQ(transposed.bytes(), expected.bytes());
    EXPECT_EQ(std::memcmp(transposed.data(), expected.data(), expected.bytes()), 0) << n_in << " x " << n_out;
  }
}

// Parts of unlike formats at odd addresses, one below the other, whose borders are no panels'.
TEST_P(Matmul, PacksPartsOneBelowTheOtherAndGivesItsRowsBack) {
  for (const std::int64_t n_in : {1, 6, 65, 130}) {
    const std::int64_t n_first = 70, n_second = 3;
    const auto n = static_cast<std::size_t>((n_first + n_second) * n_in),
               n_half = static_cast<std::size_t>(n_first * n_in);
    const auto values = random_floats(n, 12);
    std::vector<std::byte> halves(2 * n_half + 1), floats(4 * (n - n_half) + 1);
    std::vector<float> whole(values);
    for (std::size_t i = 0; i < n_half; ++i) {
      const std::uint16_t half = float_to_bf16(values[i]);
      std::memcpy(halves.data() + 1 + 2 * i, &half, 2);
      whole[i] = bf16_to_float(half);
    }
    std::memcpy(floats.data() + 1, values.data() + n_half, 4 * (n - n_half));
    const std::vector<MatrixRows> parts{{halves.data() + 1, Dtype::kBFloat16, n_first},
                                        {floats.data() + 1, Dtype::kFloat32, n_second}};
    const PackedMatrix stacked(parts, n_in, dtype());
    const PackedMatrix at_once(whole.data(), Dtype::kFloat32, n_first + n_second, n_in, dtype());
    const auto x = random_floats(static_cast<std::size_t>(2 * n_in), 13);
    EXPECT_TRUE(same_bits(multiply(table(), stacked, x, pool_), multiply(table(), at_once, x, pool_)));
    std::vector<float> row(static_cast<std::size_t>(n_in));
    for (std::int64_t r = 0; r < n_first + n_second; ++r) {
      stacked.copy_row(r, row.data());
      for (std::int64_t k = 0; k < n_in; ++k) {
        ASSERT_EQ(row[static_cast<std::size_t>(k)], rounded(whole[static_cast<std::size_t>(r * n_in + k)]));
      }
    }
  }
}

// Sums several rows against the order of one row: what a kernel tuned by row count does.
template <void (*KernelTable::*kTile)(const MatmulTile&)>
struct BackwardForSeveralRows {
  static inline std::int64_t step_bytes = 4;
  static inline bool x_in_blocks = false;
  static inline void (*tile)(const MatmulTile&) = nullptr;
  static void run(const MatmulTile& given) {
    if (given.n_rows == 1) return tile(given);
    for (std::int64_t block = (given.depth - 1) / kBlockSteps; block >= 0; --block) {
      MatmulTile one = given;
      one.weight += block * kWeightBlockBytes;
      one.is_first = given.is_first && block == (given.depth - 1) / kBlockSteps;
      one.x += block * (x_in_blocks ? given.n_rows : 1) * kBlockSteps * step_bytes;
      one.depth = std::min<std::int64_t>(kBlockSteps, given.depth - block * kBlockSteps);
      tile(one);
    }
  }
};

TEST_P(Matmul, NegativeAnOrderThatDependsOnTheRowCountIsCaught) {
  const Problem problem = make_problem(64, 301, dtype());
  KernelTable planted = table();
  using F32 = BackwardForSeveralRows<&KernelTable::matmul_f32>;
  using Bf16 = BackwardForSeveralRows<&KernelTable::matmul_bf16>;
  F32::tile = table().matmul_f32;
  Bf16::tile = table().matmul_bf16;
  Bf16::step_bytes = table().bf16_pair_bytes;
  Bf16::x_in_blocks = table().bf16_in_blocks;
  planted.matmul_f32 = &F32::run;
  planted.matmul_bf16 = &Bf16::run;
  EXPECT_EQ(variant_row_counts(planted, problem.packed, pool_),
            "2 3 4 5 6 7 8 9 10 11 12 13 16 17 32 33 34 48 49 64 256 ");
}

INSTANTIATE_TEST_SUITE_P(Isa, Matmul, every_isa_and_dtype(), isa_and_dtype_name);

// Products of two bfloat16 are exact in float32, so with or without a fused addition the sums are the same. The
// instructions for bfloat16 itself round a pair's two additions in ways of their own.
TEST(MatmulClasses, WidenedBFloat16IsTheSameOnEveryClass) {
  const Problem problem = make_problem(130, 257, Dtype::kBFloat16);
  const auto x = random_floats(5 * 257, 9);
  ThreadPool pool(1);
  const auto scalar = multiply(kernel_table(IsaClass::kScalar), problem.packed, x, pool);
  for (const IsaClass isa : available_isas()) {
    if (isa == IsaClass::kAvx512Bf16 || isa == IsaClass::kAmxBf16) continue;
    EXPECT_TRUE(same_bits(scalar, multiply(kernel_table(isa), problem.packed, x, pool))) << isa_class_name(isa);
  }
}

TEST(MatmulClasses, ThePublicFunctionUsesTheProcessClass) {
  const Problem problem = make_problem(70, 50, Dtype::kBFloat16);
  const auto x = random_floats(4 * 50, 10);
  ThreadPool pool(2);
  std::vector<float> y(4 * 70);
  const AlignedBytes scratch(Activations::bytes(4, 50));
  matmul(problem.packed, x.data(), 50, 4, y.data(), 70, false, scratch.data(), pool);
  EXPECT_TRUE(same_bits(y, multiply(kernel_table(isa_class()), problem.packed, x, pool)));
  EXPECT_EQ(available_isas().back(), choose_isa(""));
  for (const IsaClass isa : available_isas()) EXPECT_EQ(choose_isa(isa_class_name(isa)), isa);
  EXPECT_THROW(choose_isa("avx1024"), Error);
}

TEST(MatmulClasses, MemoryThatTheMachineLacksIsAnError) {
  const float value = 0;
  EXPECT_THROW(PackedMatrix(&value, Dtype::kFloat32, std::int64_t{1} << 30, std::int64_t{1} << 28, Dtype::kFloat32),
               Error);
}

}  // namespace
}  // namespace slip::kernels
