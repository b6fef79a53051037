// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/ranks_shapes.h"

#include <algorithm>
#include <string>

namespace slip::bench {
namespace {

using nlohmann::json;

// A shape of proposals: which nodes of what was drafted are verified.
struct Shape {
  std::size_t depth = 0;  // draft passes
  std::size_t width = 1;  // choices a depth at most
  std::size_t nodes = 0;  // at most; 0: any number
  double least_f = 0;     // verify only nodes with this probability of the whole path
  bool stops = false;     // draft no deeper once the path is less likely than that
};

struct Outcome {
  double tokens = 0, rows = 0, passes = 0;  // sums; tokens: with the target's own
};

// Adds one step from this position. f of a node is the product of the draft's probabilities along its path.
void add_step(const Drafted& drafted, const Shape& shape, Outcome& sum) {
  struct Node {
    double f;
    std::size_t depth, rank;
  };
  std::vector<Node> nodes;
  double parent = 1;
  std::size_t n_passes = 0;
  for (std::size_t depth = 0; depth < std::min(shape.depth, drafted.n_known); ++depth) {
    if (shape.stops && parent < shape.least_f) break;
    ++n_passes;
    for (std::size_t rank = 0; rank < shape.width; ++rank) {
      const double f = parent * drafted.q[depth][rank];
      if (f >= shape.least_f || (shape.stops && rank == 0)) nodes.push_back({f, depth, rank});
    }
    parent *= drafted.q[depth][0];
  }
  if (shape.nodes > 0 && nodes.size() > shape.nodes) {
    std::stable_sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.f > b.f; });
    nodes.resize(shape.nodes);
  }
  std::size_t n_chain = 0;
  bool has_sibling = false;
  for (const Node& node : nodes) {
    n_chain += node.rank == 0 && node.depth < drafted.n_right ? 1 : 0;
    has_sibling |= node.rank > 0 && node.depth == drafted.n_right && node.rank == drafted.rank;
  }
  sum.tokens += 1 + static_cast<double>(n_chain) + (has_sibling ? 1 : 0);
  sum.rows += static_cast<double>(1 + nodes.size());
  sum.passes += static_cast<double>(n_passes);
}

json report(const std::string& name, const Shape& shape, const std::vector<Drafted>& all, const ShapeCosts& costs) {
  Outcome sum;
  for (const Drafted& drafted : all) add_step(drafted, shape, sum);
  const auto n = static_cast<double>(all.size());
  const double cost = 1 + costs.row * (sum.rows / n - 1) + costs.draft * sum.passes / n;
  return {{"shape", name},
          {"depth", shape.depth},
          {"width", shape.width},
          {"nodes", sum.rows / n - 1},
          {"least_f", shape.least_f},
          {"accepted_length", sum.tokens / n},
          {"speed", sum.tokens / n / cost}};
}

// The fastest of several shapes.
json best(const std::string& name, const std::vector<Shape>& shapes, const std::vector<Drafted>& all,
          const ShapeCosts& costs) {
  json fastest;
  for (const Shape& shape : shapes) {
    json one = report(name, shape, all, costs);
    if (fastest.is_null() || one["speed"] > fastest["speed"]) fastest = std::move(one);
  }
  return fastest;
}

}  // namespace

json shapes_of(const std::vector<Drafted>& all, std::size_t width, const ShapeCosts& costs) {
  json rows = json::array();
  for (const std::size_t k : {1, 2, 3, 5, 8}) rows.push_back(report("chain", {.depth = k}, all, costs));
  for (const std::size_t nodes : {4, 8, 16}) {
    const Shape shape{.depth = kDeepest, .width = width, .nodes = nodes};
    rows.push_back(report("siblings", shape, all, costs));
  }
  std::vector<Shape> chains, pruned, stopped, siblings, stopped_siblings;
  for (std::size_t depth = 0; depth <= kDeepest; ++depth) {
    chains.push_back({.depth = depth});
    for (const double f : {0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5}) {
      pruned.push_back({.depth = depth, .least_f = f});
      stopped.push_back({.depth = depth, .least_f = f, .stops = true});
      siblings.push_back({.depth = depth, .width = width, .least_f = f});
      stopped_siblings.push_back({.depth = depth, .width = width, .least_f = f, .stops = true});
    }
  }
  rows.push_back(best("best chain", chains, all, costs));
  rows.push_back(best("best chain, pruned by f", pruned, all, costs));
  rows.push_back(best("best chain, stopped by f", stopped, all, costs));
  rows.push_back(best("best siblings by f", siblings, all, costs));
  rows.push_back(best("best siblings, stopped by f", stopped_siblings, all, costs));
  return rows;
}

json calibration_of(const std::vector<Drafted>& all, std::size_t width) {
  constexpr std::size_t kBuckets = 10;
  json rows = json::array();
  for (std::size_t rank = 0; rank < std::min<std::size_t>(width, 3); ++rank) {
    std::array<double, kBuckets> q{}, n{}, accepted{};
    for (const Drafted& drafted : all) {
      for (std::size_t depth = 0; depth < std::min(drafted.n_right + 1, drafted.n_known); ++depth) {
        const double of = drafted.q[depth][rank];
        const std::size_t bucket = std::min(kBuckets - 1, static_cast<std::size_t>(of * kBuckets));
        q[bucket] += of, n[bucket] += 1;
        accepted[bucket] += (depth < drafted.n_right ? rank == 0 : rank == drafted.rank) ? 1 : 0;
      }
    }
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (n[i] > 0)
        rows.push_back({{"rank", rank + 1}, {"q", q[i] / n[i]}, {"n", n[i]}, {"accepted", accepted[i] / n[i]}});
    }
  }
  return rows;
}

json depths_of(const std::vector<Drafted>& all, std::size_t width) {
  json rows = json::array();
  for (std::size_t depth = 0; depth < kDeepest; ++depth) {
    std::vector<double> shares(width);
    double n = 0;
    for (const Drafted& drafted : all) {
      if (depth > drafted.n_right || depth >= drafted.n_known) continue;
      n += 1;
      const std::size_t rank = depth < drafted.n_right ? 0 : drafted.rank;
      if (rank < width) shares[rank] += 1;
    }
    for (double& share : shares) share /= std::max(n, 1.0);
    rows.push_back(shares);
  }
  return rows;
}

}  // namespace slip::bench
