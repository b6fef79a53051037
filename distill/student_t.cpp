// SPDX-License-Identifier: Apache-2.0
#include "distill/student_t.h"

#include <cmath>

namespace slip {

namespace {

// The continued fraction of the incomplete beta function (DLMF 8.17.22), evaluated by Lentz's method; it converges
// quickly for x < (a + 1)/(a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr int kMaxTerms = 400;
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-15;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1) < kEnough) break;
  }
  return result;
}

// The regularised incomplete beta function I_x(a, b).
double beta_ratio(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_t_tail(double t, double degrees) {
  const double half = 0.5 * beta_ratio(degrees / 2, 0.5, degrees / (degrees + t * t));
  return t > 0 ? half : 1 - half;
}

double student_t_quantile(double tail, double degrees) {
  double low = 0;
  double high = 1;
  while (student_t_tail(high, degrees) > tail && high < 1e12) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_t_tail(middle, degrees) > tail ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace slip
