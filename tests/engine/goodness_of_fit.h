// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace slip::testing {

// The probability that any statistical test of this folder fails without a defect is at most 1e-6 (Bonferroni over
// kStatisticalTests). Seeds are fixed, so a test that passed once always passes.
inline constexpr int kStatisticalTests = 200;
inline constexpr double kSignificance = 1e-6 / kStatisticalTests;

// Q(a, x) = Γ(a, x) / Γ(a), the upper regularised incomplete gamma function: a power series below x = a + 1, Lentz's
// continued fraction above.
inline double upper_gamma(double a, double x) {
  if (x <= 0) return 1;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  constexpr double kPrecision = 1e-15;
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * kPrecision; ++n) sum += term *= x / n;
    return 1 - scale * sum;
  }
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, fraction = d;
  for (int n = 1; n < 10000; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    fraction *= d * c;
    if (std::abs(d * c - 1) < kPrecision) break;
  }
  return scale * fraction;
}

// Pearson's chi-square p-value of `counts` against `probabilities`. Cells with an expected count below 5 are pooled. A
// count in a cell of probability 0 gives p-value 0.
inline double chi_square_p_value(std::span<const std::int64_t> counts, std::span<const double> probabilities) {
  double n = 0;
  for (const std::int64_t count : counts) n += static_cast<double>(count);
  double statistic = 0, pooled_expected = 0, pooled_count = 0;
  int n_cells = 0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++n_cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i];
    const double count = static_cast<double>(counts[i]);
    if (expected == 0 && count > 0) return 0;
    if (expected >= 5) {
      add_cell(count, expected);
    } else {
      pooled_expected += expected;
      pooled_count += count;
    }
  }
  if (pooled_expected > 0) add_cell(pooled_count, pooled_expected);
  return n_cells < 2 ? 1 : upper_gamma((n_cells - 1) / 2.0, statistic / 2);
}

// Exact tails of Binomial(n, p), summed term by term in the log domain.
inline double binomial_upper_tail(std::int64_t successes, std::int64_t n, double p) {
  if (p >= 1) return 1;
  if (p <= 0) return successes > 0 ? 0 : 1;
  double sum = 0;
  const double log_n = std::lgamma(static_cast<double>(n) + 1);
  for (std::int64_t k = successes; k <= n; ++k) {
    const double x = static_cast<double>(k), y = static_cast<double>(n - k);
    sum += std::exp(log_n - std::lgamma(x + 1) - std::lgamma(y + 1) + x * std::log(p) + y * std::log1p(-p));
  }
  return sum < 1 ? sum : 1;
}

inline double binomial_lower_tail(std::int64_t successes, std::int64_t n, double p) {
  return binomial_upper_tail(n - successes, n, 1 - p);
}

inline double binomial_p_value(std::int64_t successes, std::int64_t n, double p) {
  return std::fmin(1, 2 * std::fmin(binomial_upper_tail(successes, n, p), binomial_lower_tail(successes, n, p)));
}

}  // namespace slip::testing
