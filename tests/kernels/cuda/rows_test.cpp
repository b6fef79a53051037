// SPDX-License-Identifier: Apache-2.0
// The row-wise device operations, their bodies run on the host.
#include "kernels/cuda/rows.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "tests/kernels/cuda/device_kv.h"
#include "tests/kernels/cuda/host_grid.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels::cuda {
namespace {

std::vector<float> normalise(const RmsNorm& job, int n_rows) {
  RmsNormShared shared;
  std::vector<float> y(static_cast<std::size_t>(n_rows * job.n), std::nanf(""));
  RmsNorm with = job;
  with.y = y.data();
  with.y_stride = job.n;
  run_on_host<kRowThreads>({n_rows}, [&](const RowBlock& block) { rms_norm(block, with, shared); });
  return y;
}

TEST(CudaRows, RmsNormEqualsTheReference) {
  for (const std::size_t n : {1, 31, 256, 384, 1536, 4096}) {
    const auto x = random_floats(3 * n, 1), weight = random_floats(n, 2);
    const auto length = static_cast<std::int64_t>(n);
    RmsNorm job{x.data(), length, {weight.data()}, length, 1e-5F};
    std::vector<std::uint16_t> activations(static_cast<std::size_t>(activation_elements(3, length)), kHalfNan);
    job.activations = activations.data();
    const auto y = normalise(job, 3);
    for (std::size_t row = 0; row < 3; ++row) {
      double squares = 0;
      for (std::size_t i = 0; i < n; ++i) squares += double{x[row * n + i]} * x[row * n + i];
      for (std::size_t i = 0; i < n; ++i) {
        const double expected = x[row * n + i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * weight[i];
        ASSERT_NEAR(y[row * n + i], expected, Tolerance::kRmsNorm * std::abs(expected)) << i << " of " << n;
      }
    }
    EXPECT_EQ(activations, [&] {
      auto expected = packed_activations(y, 3, length);
      return expected;
    }());
  }
}

TEST(CudaRows, RmsNormOfAZeroPaddedRowIsTheSameToTheBit) {
  const std::size_t n = 384;
  const auto x = random_floats(n, 3), weight = random_floats(n, 4);
  std::vector<float> wide_x(4 * n, 0.0F), wide_weight(4 * n, 0.0F);
  for (std::size_t i = 0; i < n; ++i) {
    wide_x[i] = x[i];
    wide_weight[i] = weight[i] / 2;
  }
  const auto y = normalise({x.data(), 384, {weight.data()}, 384, 1e-5F}, 1);
  auto wide_y = normalise({wide_x.data(), 4 * 384, {wide_weight.data()}, 4 * 384, 1e-5F / 4}, 1);
  wide_y.resize(n);
  EXPECT_TRUE(same_bits(y, wide_y));
}

// As rows of a pass find their models: tile by tile, and nothing is done for rows of nobody.
TEST(CudaRows, EveryTileTakesItsOwnWeights) {
  constexpr int kRows = 20;
  constexpr std::int64_t kWidth = 32;
  const auto here = random_floats(40, 1), there = random_floats(40, 2), x = random_floats(kRows * kWidth, 3);
  const auto bytes = [](const std::vector<float>& slot) { return reinterpret_cast<const std::byte*>(slot.data()); };
  const std::byte* const of_tile[] = {bytes(there), nullptr, bytes(here)};
  RmsNorm job{x.data(), kWidth, {here.data() + 8}, kWidth, 1e-5F};
  const auto all_here = normalise(job, kRows);
  job.weight.data = there.data() + 8;
  const auto all_there = normalise(job, kRows);
  job.weight = {here.data() + 8, 8 * sizeof(float)};
  job.row_weights = {of_tile, /*alike=*/false};
  const auto grouped = normalise(job, kRows);
  std::vector<std::int32_t> tokens{1, 0}, token_rows(kRows, 1);
  token_rows[19] = 0;
  Embed embedding{{reinterpret_cast<const std::uint16_t*>(here.data()), 16}, tokens.data(), 8};
  std::vector<float> hidden(kRows * 8, -1.0F);
  embedding.hidden = hidden.data();
  embedding.token_rows = token_rows.data();
  embedding.row_weights = job.row_weights;
  run_on_host<kRowThreads>({kRows}, [&](const RowBlock& block) { embed(block, embedding); });
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto& expected = row < 8 ? all_there : all_here;
    const auto* from =
        reinterpret_cast<const std::uint16_t*>((row < 8 ? there : here).data()) + 8 + (row == 19 ? 8 : 0);
    for (std::size_t i = 0; i < kWidth; ++i) {
      const float got = grouped[row * kWidth + i];
      ASSERT_TRUE(row / 8 == 1 ? std::isnan(got) : got == expected[row * kWidth + i]) << row;
    }
    for (std::size_t i = 0; i < 8; ++i)
      ASSERT_EQ(hidden[row * 8 + i], row / 8 == 1 ? -1.0F : bf16_to_float(from[i])) << row;
  }
}

TEST(CudaRows, RmsNormTakesTheRowsAskedFor) {
  const auto x = random_floats(4 * 32, 5), weight = random_floats(32, 6);
  const std::vector<std::int32_t> rows = {3, 1};
  RmsNorm job{x.data(), 32, {weight.data()}, 32, 1e-5F};
  const auto all = normalise(job, 4);
  job.rows = rows.data();
  const auto some = normalise(job, 2);
  EXPECT_TRUE(same_bits(std::span(some).first(32), std::span(all).subspan(96)));
  EXPECT_TRUE(same_bits(std::span(some).subspan(32), std::span(all).subspan(32, 32)));
}

TEST(CudaRows, EmbeddingsAreWidened) {
  const auto table = to_bf16(random_floats(5 * 7, 7));
  const std::vector<std::int32_t> tokens = {4, 0, 4};
  std::vector<float> hidden(3 * 7, -1.0F);
  const Embed job{{table.data()}, tokens.data(), 7, hidden.data()};
  run_on_host<kRowThreads>({3}, [&](const RowBlock& block) { embed(block, job); });
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    ASSERT_EQ(hidden[i], bf16_to_float(table[static_cast<std::size_t>(tokens[i / 7]) * 7 + i % 7]));
  }
}

TEST(CudaRows, ExponentialsAreThoseOfTheLibrary) {
  for (float x = -87; x < 88; x += 0.0371F) ASSERT_NEAR(exponential(x) / std::exp(double{x}), 1, 1.2e-7) << x;
  EXPECT_EQ(exponential(-infinity()), 0);
  EXPECT_TRUE(std::isnan(exponential(std::nanf(""))));
  for (double x = -700; x <= 0; x += 0.173) ASSERT_NEAR(exp_nonpositive(x) / std::exp(x), 1, 4e-16) << x;
  EXPECT_EQ(exp_nonpositive(0), 1);
  EXPECT_EQ(exp_nonpositive(-1e9), 0);
}

// Everything between the QKV product and attention against the CPU's operations, one by one.
TEST(CudaRows, RotateAndStoreIsNormRopeAndStore) {
  constexpr std::int32_t kHeads = 6, kKvHeads = 2, kDim = 40, kRows = 3, kPositions = 50;
  const auto width = static_cast<std::size_t>((kHeads + 2 * kKvHeads) * kDim);
  const auto before = random_floats(kRows * width, 8), angle = random_floats(kPositions * kDim / 2, 9);
  const auto q_norm = random_floats(kDim, 10), k_norm = random_floats(kDim, 11);
  std::vector<float> cos, sin;
  for (const float a : angle) {
    cos.push_back(std::cos(a));
    sin.push_back(std::sin(a));
  }
  for (const bool with_norms : {false, true}) {
    const std::size_t page = 2 * kKvHeads * 16 * kDim;
    std::vector<std::uint16_t> memory(3 * page, kHalfNan), expected = memory;
    const std::vector<std::int32_t> pages = {2, 0, 1}, positions = {14, 15, 16};
    std::vector<DeviceRow> rows;
    for (int i = 0; i < kRows; ++i) rows.push_back({pages.data(), nullptr, 0, 14, i, 0});
    std::vector<float> qkv = before;
    RotateAndStore job{qkv.data(),  static_cast<std::int64_t>(width),
                       kHeads,      {memory.data(), page, kKvHeads, kDim, 16},
                       rows.data(), positions.data(),
                       cos.data(),  sin.data()};
    if (with_norms) {
      job.q_norm.data = q_norm.data();
      job.k_norm.data = k_norm.data();
      job.eps = 1e-5F;
    }
    run_on_host<kRowThreads>({kRows, head_groups(job)}, [&](const RowBlock& block) { rotate_and_store(block, job); });

    const PagedKv kv{expected.data(), static_cast<std::int64_t>(page * 2), Dtype::kBFloat16, kKvHeads, kDim, 16};
    for (int row = 0; row < kRows; ++row) {
      auto reference = std::vector<float>(before.begin() + row * std::ssize(qkv) / kRows,
                                          before.begin() + (row + 1) * std::ssize(qkv) / kRows);
      for (int head = 0; with_norms && head < kHeads + kKvHeads; ++head) {
        float* at = &reference[static_cast<std::size_t>(head * kDim)];
        kernels::rms_norm(at, (head < kHeads ? q_norm : k_norm).data(), kDim, 1e-5F, at);
      }
      const auto position = static_cast<std::size_t>(positions[static_cast<std::size_t>(row)] * kDim / 2);
      kernels::rope(reference.data(), kHeads + kKvHeads, kDim, &cos[position], &sin[position]);
      const float* key = &reference[kHeads * kDim];
      store_device_kv(kv, pages[static_cast<std::size_t>((14 + row) / 16)], (14 + row) % 16, key,
                      key + kKvHeads * kDim);
      for (std::size_t i = 0; i < kHeads * kDim; ++i) {
        ASSERT_NEAR(qkv[static_cast<std::size_t>(row) * width + i], reference[i], 4e-6) << row << ", " << i;
      }
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (expected[i] == kHalfNan) {
        ASSERT_EQ(memory[i], kHalfNan) << "what was not to be written, at " << i;
      } else {
        const float value = bf16_to_float(expected[i]);
        ASSERT_NEAR(bf16_to_float(memory[i]), value, std::abs(value) / 128) << i;  // a tie may round the other way
      }
    }
  }
}

// Attention multiplies the values that a row must not see by zero, so all stored values are finite. The key of one that
// was not is NaN: rows that see it get NaN.
TEST(CudaRows, AValueThatIsNotFiniteMovesIntoItsKey) {
  constexpr std::int32_t kHeads = 2, kKvHeads = 2, kDim = 40, kBroken = 1;
  for (const float bad : {std::nanf(""), infinity(), -infinity(), 3.4e38F}) {  // the last is infinite in bfloat16
    auto qkv = random_floats((kHeads + 2 * kKvHeads) * kDim, 1);
    qkv[(kHeads + kKvHeads + kBroken) * kDim + 7] = bad;
    const std::vector<float> one(kDim / 2, 1.0F), zero(kDim / 2, 0.0F);
    std::vector<std::uint16_t> page(2 * kKvHeads * 16 * kDim, 0);
    const std::int32_t pages[] = {0}, positions[] = {0};
    const DeviceRow row{pages};
    const RotateAndStore job{
        qkv.data(), std::ssize(qkv), kHeads,     {page.data(), std::ssize(page), kKvHeads, kDim, 16},
        &row,       positions,       one.data(), zero.data()};
    run_on_host<kRowThreads>({1, head_groups(job)}, [&](const RowBlock& block) { rotate_and_store(block, job); });
    for (std::int32_t head = 0; head < kKvHeads; ++head) {
      const std::uint16_t *key = &page[static_cast<std::size_t>(head * 16 * kDim)], *value = key + kKvHeads * 16 * kDim;
      EXPECT_EQ(std::isnan(widen(key[0])), head == kBroken);
      EXPECT_TRUE(std::all_of(value, value + kDim, is_finite_bf16));
      EXPECT_NE(value[6], 0) << "the others stay";
    }
  }
}

}  // namespace
}  // namespace slip::kernels::cuda
