// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "tests/kernels/kernel_cases.h"

namespace slip::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Elementwise : public testing::TestWithParam<IsaClass> {
 protected:
  const KernelTable& table() const { return kernel_table(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Isa, Elementwise, testing::ValuesIn(available_isas()),
                         [](const auto& param) { return std::string(isa_class_name(param.param)); });

TEST_P(Elementwise, RmsNormEqualsTheReference) {
  for (const std::size_t n : {1, 15, 16, 17, 100, 384, 1536}) {
    const auto x = random_floats(n, 1), weight = random_floats(n, 2);
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    std::vector<float> y(n);
    table().rms_norm(x.data(), weight.data(), std::ssize(x), 1e-5F, y.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * weight[i];
      ASSERT_NEAR(y[i], expected, Tolerance::kRmsNorm * std::abs(expected)) << i << " of " << n;
    }
  }
}

// A model whose hidden state is padded with zeros to four times its size, with halved norm weights and a quarter of
// eps, must compute the very same values.
TEST_P(Elementwise, RmsNormOfAZeroPaddedRowIsTheSameToTheBit) {
  for (const std::size_t n : {20, 96, 384}) {
    const auto x = random_floats(n, 3), weight = random_floats(n, 4);
    std::vector<float> y(n), wide_x(4 * n, 0.0F), wide_weight(4 * n, 0.0F), wide_y(4 * n, kNan);
    for (std::size_t i = 0; i < n; ++i) {
      wide_x[i] = x[i];
      wide_weight[i] = weight[i] / 2;
    }
    table().rms_norm(x.data(), weight.data(), std::ssize(x), 1e-5F, y.data());
    table().rms_norm(wide_x.data(), wide_weight.data(), std::ssize(wide_x), 1e-5F / 4, wide_y.data());
    wide_y.resize(n);
    EXPECT_TRUE(same_bits(y, wide_y)) << n;
  }
}

TEST_P(Elementwise, RopeTurnsPairsHalfAHeadApart) {
  for (const int head_dim : {2, 16, 40, 64, 128}) {
    const auto half = static_cast<std::size_t>(head_dim / 2);
    const auto before = random_floats(3 * 2 * half, 5), angle = random_floats(half, 6);
    std::vector<float> cos(half), sin(half), x = before;
    for (std::size_t i = 0; i < half; ++i) {
      cos[i] = std::cos(angle[i]);
      sin[i] = std::sin(angle[i]);
    }
    table().rope(x.data(), 3, head_dim, cos.data(), sin.data());
    for (std::size_t head = 0; head < 3; ++head) {
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t at = head * 2 * half + i;
        const double a = before[at], b = before[at + half], size = std::abs(a) + std::abs(b);
        ASSERT_NEAR(x[at], a * cos[i] - b * sin[i], Tolerance::kRope * size);
        ASSERT_NEAR(x[at + half], b * cos[i] + a * sin[i], Tolerance::kRope * size);
      }
    }
  }
}

TEST_P(Elementwise, SiluIsAccurateFromEndToEnd) {
  std::vector<float> gate;
  for (float x = -86; x < 86; x += 0.0371F) gate.push_back(x);
  const std::vector<float> up(gate.size(), 3.0F), before = gate;
  table().silu_multiply(gate.data(), up.data(), std::ssize(gate));
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double expected = 3.0 * before[i] / (1 + std::exp(-double{before[i]}));
    ASSERT_NEAR(gate[i], expected, Tolerance::kSilu * std::abs(expected)) << before[i];
  }
  std::vector<float> extreme = {-1e30F, -200, 0, 200, 1e30F, kNan};
  const std::vector<float> ones(extreme.size(), 1.0F);
  table().silu_multiply(extreme.data(), ones.data(), std::ssize(extreme));
  EXPECT_NEAR(extreme[1], 0, 1e-30);
  EXPECT_EQ(extreme[2], 0);
  EXPECT_EQ(extreme[3], 200);
  EXPECT_EQ(extreme[4], 1e30F);
  EXPECT_TRUE(std::isnan(extreme[5]));
}

TEST_P(Elementwise, AddCoversEveryElementAndNoMore) {
  for (const std::size_t n : {1, 16, 31, 64}) {
    auto x = random_floats(n + 1, 7);
    const auto before = x, delta = random_floats(n + 1, 8);
    table().add(x.data(), delta.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], before[i] + delta[i]);
    ASSERT_EQ(x[n], before[n]);
  }
}

TEST_P(Elementwise, ArgmaxTakesTheFirstOfTheGreatest) {
  const auto argmax_of = [&](const std::vector<float>& x) { return table().argmax(x.data(), std::ssize(x)); };
  for (const std::size_t n : {1, 5, 16, 33, 8192}) {
    auto x = random_floats(n, n);
    const auto expected = std::max_element(x.begin(), x.end()) - x.begin();
    EXPECT_EQ(argmax_of(x), expected);
    x[n / 2] = x[n - 1] = 100;
    EXPECT_EQ(argmax_of(x), static_cast<std::int64_t>(n / 2));
  }
  EXPECT_EQ(argmax_of({kNan, 1, kNan, 3}), 3);
  EXPECT_EQ(argmax_of(std::vector<float>(40, -kInfinity)), 0);
  EXPECT_EQ(argmax_of(std::vector<float>(40, kNan)), 0);
  std::vector<float> late(40, kNan);
  late[37] = -5;
  EXPECT_EQ(argmax_of(late), 37);
}

TEST_P(Elementwise, ManyBFloat16ConversionsAreTheOneRepeated) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65521) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  std::vector<std::uint16_t> out(values.size());
  table().to_bf16(values.data(), std::ssize(values), out.data());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(out[i], float_to_bf16(values[i])) << i;
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(float_to_bf16(value), bits);
    }
  }
  const auto rounded = [](std::uint32_t bits) { return float_to_bf16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3F808000), 0x3F80);  // a tie, to even below
  EXPECT_EQ(rounded(0x3F818000), 0x3F82);  // a tie, to even above
  EXPECT_EQ(rounded(0x3F808001), 0x3F81);
  EXPECT_EQ(rounded(0x3F807FFF), 0x3F80);
  EXPECT_EQ(rounded(0x7F7FFFFF), 0x7F80);                       // beyond the largest
  EXPECT_TRUE(std::isnan(bf16_to_float(rounded(0x7F800001))));  // a NaN whose upper half alone would be infinity
}

TEST(BFloat16, ManyWidenedAreTheOneRepeated) {
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  std::vector<float> out(all.size());
  for (std::size_t n : {all.size(), std::size_t{37}}) {
    out.assign(all.size(), -1);
    bf16_to_float(all.data(), static_cast<std::int64_t>(n), out.data());
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::uint32_t{all[i]} << 16) << i;
    }
    if (n < out.size()) {
      EXPECT_EQ(out[n], -1);
    }
  }
}

TEST(Float16, EveryValueIsWhatItsBitsSay) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    const float value = f16_to_float(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::signbit(value), bits >= 32768) << bits;
    if (exponent == 31) {
      ASSERT_TRUE(fraction == 0 ? std::isinf(value) : std::isnan(value)) << bits;
    } else {
      const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(std::abs(value), size) << bits;
    }
  }
}

}  // namespace
}  // namespace slip::kernels
