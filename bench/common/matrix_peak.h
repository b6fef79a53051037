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

// The peak matrix multiplication speed of this machine: oneDNN through each of LibTorch's ways, and our own kernel on
// weights in a core's cache. Both use all of the pool's threads.
class MatrixPeak {
 public:
  // `dtype`: of the operands, kBFloat16 or kFloat32. Throws Error{kInternal} if a product differs from plain sums by
  // more than the kernels' tolerance; then nothing is timed.
  MatrixPeak(Dtype dtype, const std::vector<ProductShape>& onednn_shapes, kernels::ThreadPool& pool);
  ~MatrixPeak();

  void round();  // times every way once
  // Repeats oneDNN's best way for this long. A best of milliseconds is too high to compare with work of seconds; this
  // is the value to compare that with. REQUIRES: a round() before.
  void sustain(double seconds);

  double onednn_flop_per_s() const;            // best of all shapes and ways
  double onednn_median_flop_per_s() const;     // of the shape and way with the best median
  double onednn_sustained_flop_per_s() const;  // best of sustain(); 0: not measured
  double best_flop_per_s() const;              // including our own
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
