// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/activations.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"
#include "tests/kernels/isa_and_dtype.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels {
namespace {

// A layer of a network: down · (silu(gate · x) · (up · x)).
struct Layer {
  Layer(std::int64_t hidden, std::int64_t width, Dtype dtype) : n_hidden(hidden), n_gates(width) {
    const auto gate = random_floats(static_cast<std::size_t>(width * hidden), 1);
    const auto up = random_floats(static_cast<std::size_t>(width * hidden), 2);
    const MatrixRows gate_rows{gate.data(), Dtype::kFloat32, width}, up_rows{up.data(), Dtype::kFloat32, width};
    gates = PackedMatrix(gate.data(), Dtype::kFloat32, width, hidden, dtype);
    ups = PackedMatrix(up.data(), Dtype::kFloat32, width, hidden, dtype);
    both = PackedMatrix(gated_parts(gate_rows, up_rows, hidden), hidden, dtype);
    const auto down_rows = random_floats(static_cast<std::size_t>(50 * width), 3);
    down = PackedMatrix(down_rows.data(), Dtype::kFloat32, 50, width, dtype);
  }
  std::int64_t n_hidden, n_gates;
  PackedMatrix gates, ups, both, down;
};

class GatedMatmul : public testing::TestWithParam<std::tuple<IsaClass, Dtype>> {
 protected:
  const KernelTable& table() const { return kernel_table(std::get<0>(GetParam())); }
  Dtype dtype() const { return std::get<1>(GetParam()); }

  std::vector<float> product(const PackedMatrix& weight, const std::vector<float>& x, std::int64_t n_rows) {
    const AlignedBytes memory(Activations::bytes(n_rows, weight.n_in()));
    const Activations activations(table(), dtype(), n_rows, weight.n_in(), memory.data());
    for (std::int64_t row = 0; row < n_rows; ++row) activations.set_row(row, x.data() + row * weight.n_in());
    std::vector<float> y(static_cast<std::size_t>(n_rows * weight.n_out()));
    matmul(weight, activations, {y.data(), weight.n_out()}, pool_);
    return y;
  }

  // Step by step, each product by itself.
  std::vector<float> plainly(const Layer& layer, const std::vector<float>& x, const std::vector<float>& bias,
                             std::int64_t n_rows) {
    auto gate = product(layer.gates, x, n_rows), up = product(layer.ups, x, n_rows);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      float* gates = gate.data() + row * layer.n_gates;
      float* ups = up.data() + row * layer.n_gates;
      if (!bias.empty()) {
        table().add(gates, bias.data(), layer.n_gates);
        table().add(ups, bias.data() + layer.n_gates, layer.n_gates);
      }
      table().silu_multiply(gates, ups, layer.n_gates);
    }
    return product(layer.down, gate, n_rows);
  }

  std::vector<float> fused(const Layer& layer, const std::vector<float>& x, const std::vector<float>& bias,
                           std::int64_t n_rows) {
    const AlignedBytes x_memory(Activations::bytes(n_rows, layer.n_hidden));
    const AlignedBytes gated_memory(Activations::bytes(n_rows, layer.n_gates));
    const Activations activations(table(), dtype(), n_rows, layer.n_hidden, x_memory.data());
    const Activations gated(table(), dtype(), n_rows, layer.n_gates, gated_memory.data());
    for (std::int64_t row = 0; row < n_rows; ++row) activations.set_row(row, x.data() + row * layer.n_hidden);
    gated_matmul(layer.both, bias, activations, gated, pool_);
    std::vector<float> y(static_cast<std::size_t>(n_rows * layer.down.n_out()));
    matmul(layer.down, gated, {y.data(), layer.down.n_out()}, pool_);
    return y;
  }

  ThreadPool pool_{2};
};

TEST_P(GatedMatmul, GivesTheBitsOfItsStepsAtAnySize) {
  for (const std::int64_t width : {1, 31, 32, 33, 64, 95, 224}) {
    const Layer layer(70, width, dtype());
    for (const std::int64_t n_rows : {1, 3, 16, 17, 33, 150}) {
      const auto x = random_floats(static_cast<std::size_t>(n_rows * 70), 4);
      EXPECT_TRUE(same_bits(fused(layer, x, {}, n_rows), plainly(layer, x, {}, n_rows)))
          << width << " gates, " << n_rows << " rows";
    }
  }
}

TEST_P(GatedMatmul, AddsTheBiasOfBothBeforeTheGate) {
  const Layer layer(64, 75, dtype());
  const auto x = random_floats(5 * 64, 5), bias = random_floats(2 * 75, 6);
  const auto with_bias = fused(layer, x, bias, 5);
  EXPECT_TRUE(same_bits(with_bias, plainly(layer, x, bias, 5)));
  EXPECT_FALSE(same_bits(with_bias, plainly(layer, x, {}, 5)));
}

TEST_P(GatedMatmul, ActivationsAreTheSameHoweverTheyAreSet) {
  const std::int64_t n_rows = 37, n_in = 97;
  const Layer layer(n_in, 40, dtype());
  const auto x = random_floats(static_cast<std::size_t>(n_rows * n_in), 7);
  const AlignedBytes memory(Activations::bytes(n_rows, n_in));
  const Activations parts(table(), dtype(), n_rows, n_in, memory.data());
  for (std::int64_t tile = 0; tile < parts.n_tiles(); ++tile) {
    const std::int64_t row = parts.first_row(tile), n = parts.first_row(tile + 1) - row;
    parts.set_values({row, n, 64, n_in - 64}, x.data() + row * n_in + 64, n_in);
    parts.set_values({row, n, 0, 64}, x.data() + row * n_in, n_in);
  }
  std::vector<float> y(static_cast<std::size_t>(n_rows * layer.gates.n_out()));
  matmul(layer.gates, parts, {y.data(), layer.gates.n_out()}, pool_);
  EXPECT_TRUE(same_bits(y, product(layer.gates, x, n_rows)));
}

INSTANTIATE_TEST_SUITE_P(Isa, GatedMatmul, every_isa_and_dtype(), isa_and_dtype_name);

}  // namespace
}  // namespace slip::kernels
