// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/tensor_view.h"
#include "kernels/thread_pool.h"

namespace slip::bench {

// x [rows, n_in] · Wᵀ, W [n_out, n_in]: 2 · rows · n_in · n_out operations.
struct ProductShape {
  std::int64_t rows = 0, n_in = 0, n_out = 0;
};

// How fast this machine multiplies matrices: oneDNN, called through LibTorch in each of the ways that it offers, and
// our own kernel on weights that stay in a core's cache. Both use as many threads as the pool has.
class MatrixPeak {
 public:
  // `dtype`: kBFloat16 or kFloat32, of the operands. Throws Error{kInternal} when a product is not the one that plain
  // sums give within the kernels' tolerance: then nothing is timed.
  MatrixPeak(Dtype dtype, const std::vector<ProductShape>& onednn_shapes, kernels::ThreadPool& pool);
  ~MatrixPeak();

  void round();  // times every way once
  // oneDNN's best way so far, again and again for so long. A best of milliseconds meets the machine at its best, which
  // what takes a second cannot: this is what to compare that with. REQUIRES: a round() before.
  void sustain(double seconds);

  double onednn_flop_per_s() const;            // best of all shapes and ways
  double onednn_median_flop_per_s() const;     // of the shape and way whose median is best
  double onednn_sustained_flop_per_s() const;  // best of sustain(); 0: never asked
  double best_flop_per_s() const;              // our own included
  nlohmann::json to_json() const;

 private:
  struct Onednn;
  struct Ours;
  const Onednn& fastest_onednn() const;
  std::vector<std::unique_ptr<Onednn>> onednn_;
  std::unique_ptr<Ours> ours_;
  double sustained_ = 0;  // operations/s
};

}  // namespace slip::bench
