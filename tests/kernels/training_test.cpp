// SPDX-License-Identifier: Apache-2.0
#include "kernels/training.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/kernel_cases.h"

namespace slip::kernels {
namespace {

class Training : public testing::TestWithParam<IsaClass> {
 protected:
  const KernelTable& table() const { return kernel_table(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Isa, Training, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(isa_class_name(param.param)); });

// Of f at `at`, by central differences in double.
template <class F>
double slope_of(std::vector<double> at, std::size_t which, const F& f) {
  constexpr double kStep = 1e-5;
  at[which] += kStep;
  const double above = f(at);
  at[which] -= 2 * kStep;
  return (above - f(at)) / (2 * kStep);
}

std::vector<double> as_double(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

TEST_P(Training, RmsNormBackAddsTheSlopesOfTheNorm) {
  constexpr double kEps = 1e-5;
  for (const std::size_t n : {1, 15, 16, 17, 128}) {
    const auto x = random_floats(n, 1), weight = random_floats(n, 2), y_slope = random_floats(n, 3);
    const auto loss = [&](const std::vector<double>& x_at, const std::vector<double>& weight_at) {
      double squares = 0, sum = 0;
      for (const double value : x_at) squares += value * value;
      for (std::size_t i = 0; i < n; ++i) {
        sum += y_slope[i] * x_at[i] * weight_at[i] / std::sqrt(squares / static_cast<double>(n) + kEps);
      }
      return sum;
    };
    std::vector<float> x_slope(n, 1.0F), weight_slope(n, 2.0F);
    table().rms_norm_back({x.data(), weight.data(), y_slope.data(), std::ssize(x), static_cast<float>(kEps),
                           x_slope.data(), weight_slope.data()});
    for (std::size_t i = 0; i < n; ++i) {
      const double by_x = slope_of(as_double(x), i, [&](const auto& at) { return loss(at, as_double(weight)); });
      const double by_weight = slope_of(as_double(weight), i, [&](const auto& at) { return loss(as_double(x), at); });
      ASSERT_NEAR(x_slope[i] - 1, by_x, 2e-5) << i << " of " << n;
      ASSERT_NEAR(weight_slope[i] - 2, by_weight, 2e-5) << i << " of " << n;
    }
  }
}

TEST_P(Training, SiluMultiplyBackGivesTheSlopesOfBothFactors) {
  for (const std::size_t n : {1, 16, 37}) {
    const auto slope = random_floats(n, 1), gate = random_floats(n, 2), up = random_floats(n, 3);
    auto gate_slope = gate, up_slope = up;
    table().silu_multiply_back(slope.data(), gate_slope.data(), up_slope.data(), std::ssize(slope));
    for (std::size_t i = 0; i < n; ++i) {
      const auto product = [&](const std::vector<double>& at) {
        return slope[i] * at[0] * at[1] / (1 + std::exp(-at[0]));
      };
      const std::vector<double> at{gate[i], up[i]};
      ASSERT_NEAR(gate_slope[i], slope_of(at, 0, product), 1e-5);
      ASSERT_NEAR(up_slope[i], slope_of(at, 1, product), 1e-5);
    }
  }
}

// One head of `queries` queries, of which the first sees `visible` keys.
struct Head {
  Head(std::int64_t dim, std::int64_t n_queries, std::int64_t visible, std::uint64_t seed)
      : head_dim(static_cast<std::size_t>(dim)),
        queries(static_cast<std::size_t>(n_queries)),
        keys(static_cast<std::size_t>(n_queries + visible - 1)),
        stride((keys + 15) / 16 * 16),
        q(random_floats(queries * head_dim, seed)),
        out_slope(random_floats(queries * head_dim, seed + 3)),
        k(columns(seed + 1)),
        v(columns(seed + 2)),
        out(queries * head_dim),
        log_sums(queries),
        scratch(2 * DenseAttention::kRows * stride),
        q_slope(queries * head_dim),
        k_slope(head_dim * stride, 0.0F),
        v_slope(head_dim * stride, 0.0F) {
    arguments = {.keys = k.data(),
                 .values = v.data(),
                 .stride = static_cast<std::int64_t>(stride),
                 .head_dim = dim,
                 .scale = 0.3F,
                 .q = q.data(),
                 .row_stride = dim,
                 .n_queries = n_queries,
                 .visible = visible,
                 .out = out.data(),
                 .log_sums = log_sums.data(),
                 .scratch = scratch.data(),
                 .out_slope = out_slope.data(),
                 .q_slope = q_slope.data(),
                 .keys_slope = k_slope.data(),
                 .values_slope = v_slope.data()};
  }
  std::vector<float> columns(std::uint64_t seed) const {
    std::vector<float> all(head_dim * stride, 0.0F);
    const auto values = random_floats(head_dim * keys, seed);
    for (std::size_t d = 0; d < head_dim; ++d) std::copy_n(&values[d * keys], keys, &all[d * stride]);
    return all;
  }
  // Σ out · out_slope, and if asked for `out`.
  double reference(const std::vector<double>& q_at, const std::vector<double>& k_at, const std::vector<double>& v_at,
                   std::vector<double>* made = nullptr) const {
    double loss = 0;
    for (std::size_t row = 0; row < queries; ++row) {
      const std::size_t seen = keys - queries + 1 + row;
      std::vector<double> weights(seen);
      double sum = 0;
      for (std::size_t key = 0; key < seen; ++key) {
        double score = 0;
        for (std::size_t d = 0; d < head_dim; ++d) score += q_at[row * head_dim + d] * k_at[d * stride + key];
        sum += weights[key] = std::exp(score * double{arguments.scale});
      }
      for (std::size_t d = 0; d < head_dim; ++d) {
        double value = 0;
        for (std::size_t key = 0; key < seen; ++key) value += weights[key] / sum * v_at[d * stride + key];
        if (made != nullptr) made->push_back(value);
        loss += value * out_slope[row * head_dim + d];
      }
    }
    return loss;
  }

  std::size_t head_dim, queries, keys, stride;
  std::vector<float> q, out_slope, k, v, out, log_sums, scratch, q_slope, k_slope, v_slope;
  DenseAttention arguments;
};

TEST_P(Training, DenseAttentionEqualsTheReference) {
  for (const auto& [head_dim, n_queries, visible] :
       {std::tuple{8, 1, 1}, {32, 5, 1}, {32, 4, 70}, {6, 9, 12}, {64, 33, 140}}) {
    Head head(head_dim, n_queries, visible, 5);
    std::vector<double> expected;
    head.reference(as_double(head.q), as_double(head.k), as_double(head.v), &expected);
    table().dense_attention(head.arguments);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(head.out[i], expected[i], 5e-6) << i;
  }
}

// How far the slopes of q, keys and values are from central differences, the keys' times `planted_factor`.
double worst_slope(const KernelTable& table, double planted_factor) {
  double worst = 0;
  for (const auto& [head_dim, n_queries, visible] : {std::tuple{6, 1, 1}, {8, 5, 1}, {8, 6, 30}}) {
    Head head(head_dim, n_queries, visible, 9);
    table.dense_attention(head.arguments);
    table.dense_attention_back(head.arguments);
    const auto q = as_double(head.q), k = as_double(head.k), v = as_double(head.v);
    const auto differ = [&](double made, double expected) { worst = std::max(worst, std::abs(made - expected)); };
    for (std::size_t i = 0; i < q.size(); ++i) {
      differ(head.q_slope[i], slope_of(q, i, [&](const auto& at) { return head.reference(at, k, v); }));
    }
    for (std::size_t i = 0; i < k.size(); ++i) {
      if (i % head.stride >= head.keys) continue;
      differ(planted_factor * head.k_slope[i],
             slope_of(k, i, [&](const auto& at) { return head.reference(q, at, v); }));
      differ(head.v_slope[i], slope_of(v, i, [&](const auto& at) { return head.reference(q, k, at); }));
    }
  }
  return worst;
}

TEST_P(Training, DenseAttentionBackEqualsCentralDifferences) {
  EXPECT_LT(worst_slope(table(), 1.0), 2e-5);
}

TEST_P(Training, NegativeSlopesOfKeysOffByAHundredthAreCaught) {
  EXPECT_GT(worst_slope(table(), 1.01), 1e-3);
}

TEST(Transpose, PutsRowsWhereColumnsWere) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 1}, {17, 5}, {40, 33}}) {
    const std::size_t from_stride = columns + 3, to_stride = rows + 2;
    const auto from = random_floats(rows * from_stride, 1);
    std::vector<float> to(columns * to_stride, -1.0F);
    transpose(from.data(), static_cast<std::int64_t>(from_stride), static_cast<std::int64_t>(rows),
              static_cast<std::int64_t>(columns), to.data(), static_cast<std::int64_t>(to_stride));
    for (std::size_t c = 0; c < columns; ++c) {
      for (std::size_t r = 0; r < to_stride; ++r) {
        ASSERT_EQ(to[c * to_stride + r], r < rows ? from[r * from_stride + c] : -1.0F);
      }
    }
  }
}

}  // namespace
}  // namespace slip::kernels
