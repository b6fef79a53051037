// SPDX-License-Identifier: Apache-2.0
#include "bench/common/mean_ratio.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace slip::bench {
namespace {

struct Block {
  double mine_ms = 0, its_ms = 0, n = 0;

  Block& operator+=(const Block& more) {
    mine_ms += more.mine_ms;
    its_ms += more.its_ms;
    n += more.n;
    return *this;
  }
  double ratio_without(const Block& left_out) const {
    return (mine_ms - left_out.mine_ms) / (its_ms - left_out.its_ms);
  }
};

// Without blocks that have no request that both answered.
std::vector<Block> blocks_of(const std::vector<LoadFigures>& one, const std::vector<LoadFigures>& other) {
  std::vector<Block> blocks;
  for (std::size_t run = 0; run < one.size(); ++run) {
    const auto &mine = one[run].replies, &its = other[run].replies;
    std::vector<Block> of_run(kBlocksPerRun);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].status != 200 || its[i].status != 200) continue;
      of_run[i * kBlocksPerRun / mine.size()] += {mine[i].e2e_ms, its[i].e2e_ms, 1};
    }
    std::copy_if(of_run.begin(), of_run.end(), std::back_inserter(blocks), [](const Block& b) { return b.n > 0; });
  }
  return blocks;
}

// The 97.5 % quantile of Student's t, by the first terms of its expansion in 1 / degrees (Abramowitz and Stegun,
// 26.7.5): 2.20 instead of 2.201 for 11 degrees.
double student_975(double degrees) {
  const double z = 1.96, z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

}  // namespace

nlohmann::json mean_ratio(const std::vector<LoadFigures>& one, const std::vector<LoadFigures>& other) {
  const std::vector<Block> blocks = blocks_of(one, other);
  Block sum;
  for (const Block& block : blocks) sum += block;
  if (blocks.size() < 2 || sum.its_ms <= 0) return nullptr;
  const double n = static_cast<double>(blocks.size());
  double mean = 0, squares = 0;
  for (const Block& block : blocks) mean += sum.ratio_without(block) / n;
  for (const Block& block : blocks) squares += std::pow(sum.ratio_without(block) - mean, 2);
  const double ratio = sum.mine_ms / sum.its_ms, half = student_975(n - 1) * std::sqrt((n - 1) / n * squares);
  return {
      {"ratio", ratio}, {"low", ratio - half}, {"high", ratio + half}, {"requests", sum.n}, {"blocks", blocks.size()}};
}

}  // namespace slip::bench
