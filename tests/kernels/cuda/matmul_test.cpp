// SPDX-License-Identifier: Apache-2.0
// The device's matrix product, its body run on the host with the instruction's operands gathered as the manual says.
#include "kernels/cuda/matmul_wide.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/elementwise.h"
#include "tests/kernels/cuda/host_grid.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels::cuda {
namespace {

template <int kTiles, int kRowTiles>
void multiply_on_host(const Matmul& job) {
  const auto shared = std::make_unique<MatmulShared<kTiles, kRowTiles>>();
  const Grid grid{static_cast<int>((output_tiles(job.n_out) + kTiles - 1) / kTiles),
                  static_cast<int>((row_tiles(job.n_rows) + kRowTiles - 1) / kRowTiles)};
  run_on_host<kMatmulThreads>(grid, [&](const MatmulBlock& block) { matmul(block, job, *shared); });
}

template <int kRowTiles>
void multiply_widely_on_host(const Matmul& job) {
  const auto shared = std::make_unique<WideShared<kRowTiles>>();
  const Grid grid{static_cast<int>((output_tiles(job.n_out) + kWideTiles - 1) / kWideTiles),
                  static_cast<int>((row_tiles(job.n_rows) + kRowTiles - 1) / kRowTiles)};
  run_on_host<kMatmulThreads>(grid, [&](const MatmulBlock& block) { matmul_wide(block, job, *shared); });
}

struct Shape {
  std::int64_t n_rows, n_out, n_in;
};

struct Case {
  explicit Case(const Shape& of)
      : shape(of),
        w(random_floats(static_cast<std::size_t>(of.n_out * of.n_in), 1)),
        x(random_floats(static_cast<std::size_t>(of.n_rows * of.n_in), 2)),
        weights(packed_weights(w, of.n_out, of.n_in)),
        activations(packed_activations(x, of.n_rows, of.n_in)),
        y(static_cast<std::size_t>(of.n_rows * of.n_out), -1.0F) {
    job.weight.data = weights.data();
    job.activations = activations.data();
    job.n_rows = of.n_rows;
    job.n_out = of.n_out;
    job.n_in = of.n_in;
    job.y = y.data();
    job.y_stride = of.n_out;
  }
  double term(std::int64_t row, std::int64_t output, std::int64_t k) const {
    const auto rounded = [](float value) { return double{bf16_to_float(float_to_bf16(value))}; };
    return rounded(x[static_cast<std::size_t>(row * shape.n_in + k)]) *
           rounded(w[static_cast<std::size_t>(output * shape.n_in + k)]);
  }
  void expect_reference(const std::vector<float>& out) const {
    for (std::int64_t row = 0; row < shape.n_rows; ++row) {
      for (std::int64_t output = 0; output < shape.n_out; ++output) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < shape.n_in; ++k) {
          sum += term(row, output, k);
          size += std::abs(term(row, output, k));
        }
        ASSERT_NEAR(out[static_cast<std::size_t>(row * shape.n_out + output)], sum, Tolerance::kMatmul * size)
            << row << ", " << output;
      }
    }
  }
  Shape shape;
  std::vector<float> w, x;
  std::vector<std::uint16_t> weights, activations;
  std::vector<float> y;
  Matmul job;
};

TEST(CudaMatmul, EqualsTheReferenceAtOddShapes) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 33, 200}, Shape{8, 48, 1030}, Shape{9, 16, 16}}) {
    Case one(shape), two(shape);
    multiply_on_host<1, 1>(one.job);
    one.expect_reference(one.y);
    multiply_on_host<2, 2>(two.job);
    EXPECT_TRUE(same_bits(one.y, two.y)) << "tiles a block must not show";
  }
}

TEST(CudaMatmul, ARowsBitsDoNotDependOnTheOthers) {
  const Shape all{37, 40, 600};
  Case together(all);
  multiply_on_host<1, 8>(together.job);
  for (const std::int64_t row : {0, 7, 8, 36}) {
    Case alone({1, all.n_out, all.n_in});
    std::copy_n(together.x.begin() + row * all.n_in, all.n_in, alone.x.begin());
    alone.activations = packed_activations(alone.x, 1, all.n_in);
    alone.weights = together.weights;
    alone.job.weight.data = alone.weights.data();
    alone.job.activations = alone.activations.data();
    multiply_on_host<2, 1>(alone.job);
    EXPECT_TRUE(same_bits(alone.y, std::span(together.y).subspan(static_cast<std::size_t>(row * all.n_out), 40)))
        << row;
  }
}

TEST(CudaMatmul, ManyRowsHaveTheBitsOfFew) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{70, 150, 200}, Shape{130, 20, 1030}}) {
    Case few(shape), wide(shape), wider(shape);
    multiply_on_host<1, 1>(few.job);
    multiply_widely_on_host<8>(wide.job);
    multiply_widely_on_host<16>(wider.job);
    EXPECT_TRUE(same_bits(few.y, wide.y));
    EXPECT_TRUE(same_bits(few.y, wider.y));
  }
}

TEST(CudaMatmul, AddsToWhatIsThereAndToTheBias) {
  const Shape shape{5, 35, 64};
  Case plain(shape), added(shape);
  multiply_on_host<1, 1>(plain.job);
  const auto bias = random_floats(35, 5);
  added.job.bias.data = bias.data();
  added.job.epilogue = Epilogue::kAdd;
  multiply_on_host<1, 4>(added.job);
  for (std::size_t i = 0; i < plain.y.size(); ++i) ASSERT_EQ(added.y[i], -1.0F + (plain.y[i] + bias[i % 35]));
}

// Tiles of rows with models of their own, one of nobody's between them: to each the bits it would have alone.
TEST(CudaMatmul, EveryTileTakesItsOwnWeights) {
  const Shape three_tiles{20, 40, 100};
  Case first(three_tiles), second(three_tiles), grouped(three_tiles);
  second.weights = packed_weights(random_floats(second.w.size(), 7), three_tiles.n_out, three_tiles.n_in);
  second.job.weight.data = second.weights.data();
  multiply_on_host<1, 1>(first.job);
  multiply_on_host<1, 1>(second.job);
  constexpr std::size_t kBefore = 64;  // of the weight's place in either weight slot
  const auto slot_of = [&](const std::vector<std::uint16_t>& weights) {
    std::vector<std::byte> slot(kBefore + weights.size() * sizeof(std::uint16_t));
    std::memcpy(slot.data() + kBefore, weights.data(), slot.size() - kBefore);
    return slot;
  };
  const auto here = slot_of(first.weights), there = slot_of(second.weights);
  const std::byte* const of_tile[] = {there.data(), nullptr, here.data()};
  grouped.job.weight = {grouped.weights.data(), kBefore};
  grouped.job.row_weights = {of_tile, /*alike=*/false};
  multiply_on_host<2, 1>(grouped.job);
  for (std::int64_t row = 0; row < three_tiles.n_rows; ++row) {
    const auto row_of = [&](const std::vector<float>& y) {
      return std::span(y).subspan(static_cast<std::size_t>(row * 40), 40);
    };
    const std::vector<float> untouched(40, -1.0F);
    EXPECT_TRUE(same_bits(row_of(grouped.y), row < 8    ? row_of(second.y)
                                             : row < 16 ? std::span<const float>(untouched)
                                                        : row_of(first.y)))
        << row;
  }
}

TEST(CudaMatmul, RowsGoWhereTheyAreSent) {
  const Shape shape{3, 33, 50};
  Case plain(shape), sent(shape);
  multiply_on_host<1, 1>(plain.job);
  const std::vector<std::int32_t> y_rows{2, -1, 0};
  sent.job.y_rows = y_rows.data();
  multiply_on_host<1, 1>(sent.job);
  for (std::size_t i = 0; i < 33; ++i) {
    ASSERT_EQ(sent.y[2 * 33 + i], plain.y[i]);
    ASSERT_EQ(sent.y[33 + i], -1.0F);
    ASSERT_EQ(sent.y[i], plain.y[2 * 33 + i]);
  }
}

TEST(CudaMatmul, GateAndUpBecomeTheNextProductsActivations) {
  const std::int64_t n_rows = 11, n_in = 96, ffn = 48;
  Case pair({n_rows, 2 * ffn, n_in});
  std::vector<float> plain(pair.y.size());
  Matmul separate = pair.job;
  separate.y = plain.data();
  multiply_on_host<2, 2>(separate);
  std::vector<float> y(static_cast<std::size_t>(n_rows * ffn));
  std::vector<std::uint16_t> next(static_cast<std::size_t>(activation_elements(n_rows, ffn)), kHalfNan);
  pair.job.epilogue = Epilogue::kGateUp;
  pair.job.y = y.data();
  pair.job.y_stride = ffn;
  pair.job.y_activations = next.data();
  multiply_on_host<2, 2>(pair.job);
  for (std::int64_t row = 0; row < n_rows; ++row) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const auto at = static_cast<std::size_t>(row * 2 * ffn + i / 16 * 32 + i % 16);
      float gate = plain[at];
      kernel_table().silu_multiply(&gate, &plain[at + 16], 1);
      const float got = y[static_cast<std::size_t>(row * ffn + i)];
      ASSERT_NEAR(got, gate, Tolerance::kSilu * std::abs(gate)) << row << ", " << i;
      ASSERT_EQ(next[static_cast<std::size_t>(activation_at(row, i, ffn))], float_to_bf16(got));
    }
  }
  const std::vector<float> of_few = y;
  std::fill(y.begin(), y.end(), -1.0F);
  multiply_widely_on_host<8>(pair.job);
  EXPECT_TRUE(same_bits(of_few, y));
}

}  // namespace
}  // namespace slip::kernels::cuda
