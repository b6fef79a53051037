// SPDX-License-Identifier: Apache-2.0
#include "distill/student_t.h"

#include <gtest/gtest.h>
#include <cmath>

namespace slip {
namespace {

TEST(StudentT, ClosedForms) {
  for (const double t : {-3.0, -0.5, 0.0, 0.7, 2.0, 40.0}) {
    // One degree is Cauchy, two have a square root.
    EXPECT_NEAR(student_t_tail(t, 1), 0.5 - std::atan(t) / M_PI, 1e-12);
    EXPECT_NEAR(student_t_tail(t, 2), 0.5 - t / (2 * std::sqrt(2 + t * t)), 1e-12);
  }
}

// The usual table of critical values.
TEST(StudentT, TableValues) {
  EXPECT_NEAR(student_t_quantile(0.025, 10), 2.228139, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.05, 7), 1.894579, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.005, 30), 2.749996, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.025, 100000), 1.959988, 1e-5);
}

TEST(StudentT, QuantileInvertsTail) {
  for (const double tail : {0.4, 0.1, 0.01, 1e-4, 1e-6}) {
    for (const double degrees : {2.0, 7.0, 50.0}) {
      EXPECT_NEAR(student_t_tail(student_t_quantile(tail, degrees), degrees) / tail, 1, 1e-9);
    }
  }
}

}  // namespace
}  // namespace slip
