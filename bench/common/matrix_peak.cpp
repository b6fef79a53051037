// SPDX-License-Identifier: Apache-2.0
#include "bench/common/matrix_peak.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/simulation/samples.h"
#include "common/error.h"
#include "kernels/matmul.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::bench {
namespace {

// Weights of 0.5 MB fit a second-level cache; with this number of rows the cost of a call is negligible.
constexpr ProductShape kCachedShape{256, 512, 512};
// LibTorch's threads spin for some milliseconds; wait, so that they do not disturb the next measurement.
constexpr std::chrono::milliseconds kAwakeAfterwards{20};

std::string to_string(const ProductShape& shape) {
  return std::to_string(shape.rows) + " × " + std::to_string(shape.n_in) + " × " + std::to_string(shape.n_out);
}

double operations(const ProductShape& shape) {
  return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.n_in) * static_cast<double>(shape.n_out);
}

// Random operands in the kernels' layout, and exact sums of some elements of their product.
struct Operands {
  Operands(const ProductShape& product, Dtype dtype)
      : shape(product),
        x(kernels::random_floats(static_cast<std::size_t>(shape.rows * shape.n_in), /*seed=*/1)),
        weight(kernels::random_floats(static_cast<std::size_t>(shape.n_out * shape.n_in), /*seed=*/2)) {
    if (dtype != Dtype::kBFloat16) return;
    for (auto* values : {&x, &weight}) {
      for (float& value : *values) value = static_cast<float>(at::BFloat16(value));
    }
  }

  // `rounding`: relative rounding error of the result's format.
  void check(const float* y, double rounding, const std::string& way) const {
    for (std::int64_t row = 0; row < shape.rows; row += shape.rows / 5 + 1) {
      for (std::int64_t out = 0; out < shape.n_out; out += 37) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < shape.n_in; ++i) {
          const double term = static_cast<double>(x[static_cast<std::size_t>(row * shape.n_in + i)]) *
                              static_cast<double>(weight[static_cast<std::size_t>(out * shape.n_in + i)]);
          sum += term;
          size += std::abs(term);
        }
        const double error = std::abs(static_cast<double>(y[row * shape.n_out + out]) - sum);
        if (!(error <= kernels::Tolerance::kMatmul * size + rounding * std::abs(sum))) {
          throw Error(ErrorCode::kInternal, way + " gives a wrong product of " + to_string(shape) + ": not timed");
        }
      }
    }
  }

  ProductShape shape;
  std::vector<float> x, weight;
};

at::Tensor call_one(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return stack.front().toTensor();
}

// The library's type for such weights. LibTorch refuses bfloat16 on a CPU without such instructions; the kernels use
// float32 arithmetic there.
at::ScalarType library_type(Dtype dtype) {
  if (dtype != Dtype::kBFloat16) return at::kFloat;
  try {
    call_one("mkldnn::_reorder_linear_weight", {at::zeros({16, 16}, at::kBFloat16), 16});
    return at::kBFloat16;
  } catch (const c10::Error&) {
    return at::kFloat;
  }
}

}  // namespace

// One shape, in LibTorch's ways to call oneDNN: the default, and with the weight reordered beforehand, which is the
// library's fastest.
struct MatrixPeak::Onednn {
  Onednn(const Operands& operands, Dtype dtype) : shape(operands.shape) {
    const at::ScalarType type = library_type(dtype);
    const auto tensor = [&](const std::vector<float>& values, std::int64_t rows) {
      return at::from_blob(const_cast<float*>(values.data()), {rows, shape.n_in}, at::kFloat).to(type, false, true);
    };
    x = tensor(operands.x, shape.rows);
    weight = tensor(operands.weight, shape.n_out);
    turned = weight.t().contiguous();
    packed = call_one("mkldnn::_reorder_linear_weight", {weight, shape.rows});
    const double rounding = type == at::kBFloat16 ? 0x1p-8 : 0x1p-23;
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      const at::Tensor y = multiply(way).to(at::kFloat).contiguous();
      operands.check(y.const_data_ptr<float>(), rounding, std::string("oneDNN's ") + kWays[way]);
    }
  }

  at::Tensor multiply(std::size_t way) const {
    if (way == 0) return at::mm(x, turned);
    if (way == 1) return at::linear(x, weight);
    return call_one("mkldnn::_linear_pointwise",
                    {x, packed, c10::IValue(), "none", c10::List<std::optional<at::Scalar>>(), ""});
  }

  void round() {
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      multiply(way);
      for (int i = 0; i < 3; ++i) samples[way].add(seconds_of([&] { multiply(way); }));
    }
  }

  std::size_t best_way() const {
    std::size_t best_one = 0;
    for (std::size_t way = 1; way < kWays.size(); ++way) best_one = best(way) > best(best_one) ? way : best_one;
    return best_one;
  }
  double best(std::size_t way) const { return operations(shape) / samples[way].best(); }
  double best() const { return best(best_way()); }
  double median() const {
    double most = 0;
    for (const Samples& of_way : samples) most = std::max(most, operations(shape) / of_way.median());
    return most;
  }

  static constexpr std::array<const char*, 3> kWays = {"mm", "linear", "linear, reordered weight"};
  ProductShape shape;
  at::Tensor x, weight, turned, packed;
  std::array<Samples, kWays.size()> samples;
};

struct MatrixPeak::Ours {
  Ours(const Operands& operands, Dtype dtype, kernels::ThreadPool& threads)
      : shape(operands.shape),
        weight(operands.weight.data(), Dtype::kFloat32, shape.n_out, shape.n_in, dtype),
        x(operands.x),
        y(static_cast<std::size_t>(shape.rows * shape.n_out)),
        scratch(kernels::Activations::bytes(shape.rows, shape.n_in)),
        pool(threads) {
    multiply();
    operands.check(y.data(), /*rounding=*/0, "our kernel");
  }

  void multiply() {
    kernels::matmul(weight, x.data(), shape.n_in, shape.rows, y.data(), shape.n_out, /*accumulate=*/false,
                    scratch.data(), pool);
  }

  void round() {
    multiply();
    for (int i = 0; i < 10; ++i) samples.add(seconds_of([&] { multiply(); }));
  }

  double best() const { return operations(shape) / samples.best(); }

  ProductShape shape;
  kernels::PackedMatrix weight;
  std::vector<float> x, y;
  kernels::AlignedBytes scratch;
  kernels::ThreadPool& pool;
  Samples samples;
};

MatrixPeak::MatrixPeak(Dtype dtype, const std::vector<ProductShape>& onednn_shapes, kernels::ThreadPool& pool) {
  at::NoGradGuard no_grad;
  at::set_num_threads(pool.n_threads());
  for (const ProductShape& shape : onednn_shapes) {
    onednn_.push_back(std::make_unique<Onednn>(Operands(shape, dtype), dtype));
  }
  ours_ = std::make_unique<Ours>(Operands(kCachedShape, dtype), dtype, pool);
}

MatrixPeak::~MatrixPeak() = default;

void MatrixPeak::round() {
  at::NoGradGuard no_grad;
  for (const auto& product : onednn_) product->round();
  std::this_thread::sleep_for(kAwakeAfterwards);
  ours_->round();
}

const MatrixPeak::Onednn& MatrixPeak::fastest_onednn() const {
  return **std::max_element(onednn_.begin(), onednn_.end(),
                            [](const auto& a, const auto& b) { return a->best() < b->best(); });
}

double MatrixPeak::onednn_flop_per_s() const {
  return fastest_onednn().best();
}

double MatrixPeak::onednn_median_flop_per_s() const {
  double most = 0;
  for (const auto& product : onednn_) most = std::max(most, product->median());
  return most;
}

void MatrixPeak::sustain(double seconds) {
  at::NoGradGuard no_grad;
  const Onednn& product = fastest_onednn();
  const std::size_t way = product.best_way();
  product.multiply(way);
  double took = 0, done = 0;
  while (took < seconds) {
    took += seconds_of([&] { product.multiply(way); });
    done += operations(product.shape);
  }
  sustained_ = std::max(sustained_, done / took);
  std::this_thread::sleep_for(kAwakeAfterwards);
}

double MatrixPeak::onednn_sustained_flop_per_s() const {
  return sustained_;
}

double MatrixPeak::best_flop_per_s() const {
  return std::max(onednn_flop_per_s(), ours_->best());
}

nlohmann::json MatrixPeak::to_json() const {
  nlohmann::json rows = nlohmann::json::array();
  double best = 0;
  std::string won;
  const auto add = [&](const std::string& who, const ProductShape& shape, double flop_per_s) {
    rows.push_back({{"who", who},
                    {"rows", shape.rows},
                    {"n_in", shape.n_in},
                    {"n_out", shape.n_out},
                    {"tflop_s", flop_per_s / 1e12}});
    if (flop_per_s > best) won = who + ", " + to_string(shape);
    best = std::max(best, flop_per_s);
  };
  for (const auto& product : onednn_) {
    for (std::size_t way = 0; way < Onednn::kWays.size(); ++way) {
      add(std::string("oneDNN ") + Onednn::kWays[way], product->shape, product->best(way));
    }
  }
  add("our kernel, weights in cache", ours_->shape, ours_->best());
  return {{"best_tflop_s", best / 1e12},
          {"won", won},
          {"onednn_tflop_s", onednn_flop_per_s() / 1e12},
          {"onednn_median_tflop_s", onednn_median_flop_per_s() / 1e12},
          {"onednn_sustained_tflop_s", sustained_ / 1e12},
          {"products", rows}};
}

}  // namespace slip::bench
