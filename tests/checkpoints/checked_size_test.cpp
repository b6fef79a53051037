// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/checked_size.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace slip {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

// Every value a wrong width or a sign bit would stumble over, and its neighbours.
std::vector<std::uint64_t> borders() {
  std::vector<std::uint64_t> values{0, 1, 2, 3, kMax - 1, kMax};
  for (const int bit : {8, 15, 16, 31, 32, 33, 62, 63}) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  return values;
}

void expect_equals_wide_arithmetic(std::uint64_t a, std::uint64_t b) {
  using Wide = unsigned __int128;
  const Wide sum = Wide{a} + b, product = Wide{a} * b;
  const CheckedSize added = CheckedSize(a) + CheckedSize(b), multiplied = CheckedSize(a) * CheckedSize(b),
                    subtracted = CheckedSize(a) - CheckedSize(b);
  EXPECT_EQ(added.valid(), sum <= kMax) << a << " + " << b;
  EXPECT_EQ(multiplied.valid(), product <= kMax) << a << " * " << b;
  EXPECT_EQ(subtracted.valid(), a >= b) << a << " - " << b;
  if (sum <= kMax) {
    EXPECT_EQ(added.value_or_max(), static_cast<std::uint64_t>(sum));
  }
  if (product <= kMax) {
    EXPECT_EQ(multiplied.value_or_max(), static_cast<std::uint64_t>(product));
  }
  if (a >= b) {
    EXPECT_EQ(subtracted.value_or_max(), a - b);
  }
}

TEST(CheckedSize, AgreesWith128BitArithmeticAtEveryBorder) {
  for (const std::uint64_t a : borders()) {
    for (const std::uint64_t b : borders()) expect_equals_wide_arithmetic(a, b);
  }
}

TEST(CheckedSize, AgreesWith128BitArithmeticOnRandomValuesOfEveryMagnitude) {
  std::mt19937_64 draw(3);
  for (int i = 0; i < 20000; ++i) expect_equals_wide_arithmetic(draw() >> (draw() % 64), draw() >> (draw() % 64));
}

TEST(CheckedSize, StaysInvalidOnceAnythingWentWrong) {
  const CheckedSize broken = CheckedSize(kMax) + CheckedSize(1);
  EXPECT_FALSE((broken - CheckedSize(kMax)).valid());
  EXPECT_FALSE((broken * CheckedSize(0)).valid());
  EXPECT_FALSE((CheckedSize(0) * broken).valid());
  EXPECT_FALSE((broken * CheckedSize(0)).equals(0));
  EXPECT_EQ(broken.value_or_max(), kMax);
}

TEST(CheckedSize, NegativeNumbersAreNoSizes) {
  EXPECT_FALSE(CheckedSize::from_signed(-1).valid());
  EXPECT_FALSE(CheckedSize::from_signed(std::numeric_limits<std::int64_t>::min()).valid());
  EXPECT_FALSE((CheckedSize::from_signed(-2) * CheckedSize::from_signed(-2)).valid());
  EXPECT_TRUE(CheckedSize::from_signed(std::numeric_limits<std::int64_t>::max()).valid());
}

}  // namespace
}  // namespace slip
