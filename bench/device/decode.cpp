// SPDX-License-Identifier: Apache-2.0
// Times all matrix products of a decode step: 32 layers and the vocabulary of an 8B-shaped target, with random weights
// made on the device, as one captured graph. Its share of the best measured read bandwidth bounds decoding speed. Its
// time at 8 rows over that at 1 is the cost of verifying a proposal. Norms, rotation, attention and sampling are
// excluded. Every kind of product is checked in the first and last layer before timing.
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/device/common_products.h"
#include "kernels/cuda/enqueue.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::bench {
namespace {

using nlohmann::json;
using namespace kernels::cuda;  // NOLINT: the benchmark is of these

constexpr int kMostRows = 16;

// One matrix of the target: its own weights, and rows to multiply with.
class ModelProduct {
 public:
  ModelProduct(const ProductShape& shape, Epilogue epilogue, std::uint64_t seed, cudaStream_t stream)
      : weight_matrix_{shape.n_out, shape.n_in, seed},
        x_matrix_{kMostRows, shape.n_in, 0},
        epilogue_(epilogue),
        name_(shape.name),
        weight_(size_of(weight_matrix_, Layout::kWeights)) {
    fill(weight_.get(), weight_matrix_, Layout::kWeights, stream);
  }

  const RandomMatrix& x_matrix() const { return x_matrix_; }
  std::int64_t n_results() const {
    return epilogue_ == Epilogue::kGateUp ? weight_matrix_.n_rows / 2 : weight_matrix_.n_rows;
  }
  double weight_bytes() const { return 2.0 * static_cast<double>(weight_matrix_.n_rows * weight_matrix_.n_columns); }

  Matmul job(const std::uint16_t* x, float* y, std::int64_t n_rows) const {
    Matmul job;
    job.weight.data = weight_.get();
    job.activations = x;
    job.n_rows = n_rows;
    job.n_out = weight_matrix_.n_rows;
    job.n_in = weight_matrix_.n_columns;
    job.epilogue = epilogue_;
    job.y = y;
    job.y_stride = n_results();
    return job;
  }

  // Throws if the product in y is wrong.
  void check_result(const std::uint16_t* x, const DeviceArray<float>& y, cudaStream_t stream) const {
    const std::int64_t n = kMostRows * n_results();
    check(cudaMemsetAsync(y.get(), 0, sizeof(float) * static_cast<std::size_t>(n), stream), "memset");
    enqueue(job(x, y.get(), kMostRows), stream);
    const auto values = y.values(static_cast<std::size_t>(n));
    for (const std::int64_t row : sampled(kMostRows, 4)) {
      for (const std::int64_t output : sampled(n_results(), 7)) {
        if (is_right(values[static_cast<std::size_t>(row * n_results() + output)], row, output)) continue;
        throw std::runtime_error(name_ + " is wrong: not timed");
      }
    }
  }

 private:
  bool is_right(double got, std::int64_t row, std::int64_t output) const {
    if (epilogue_ != Epilogue::kGateUp) return is_near(got, element_sum(weight_matrix_, output, x_matrix_, row));
    const std::int64_t at = output / kTileOutputs * 2 * kTileOutputs + output % kTileOutputs;
    const ElementSum gate = element_sum(weight_matrix_, at, x_matrix_, row);
    const ElementSum up = element_sum(weight_matrix_, at + kTileOutputs, x_matrix_, row);
    const double silu = gate.sum / (1 + std::exp(-gate.sum));
    // The slope of SiLU is at most 1.1.
    const double error = kernels::Tolerance::kMatmul * (1.1 * gate.size * std::abs(up.sum) + std::abs(silu) * up.size) +
                         kernels::Tolerance::kSilu * std::abs(silu * up.sum);
    return std::abs(got - silu * up.sum) <= error;
  }

  RandomMatrix weight_matrix_, x_matrix_;
  Epilogue epilogue_;
  std::string name_;
  DeviceArray<std::uint16_t> weight_;
};

Epilogue epilogue_of(const std::string& name) {
  if (name == "gate_up") return Epilogue::kGateUp;
  return name == "attention_out" || name == "down" ? Epilogue::kAdd : Epilogue::kStore;
}

class DecodeStep {
 public:
  explicit DecodeStep(cudaStream_t stream) : stream_(stream), y_(std::size_t{kMostRows} * 128256) {
    const auto shapes = product_shapes("8B");
    for (int layer = 0; layer <= kLayersOf8b; ++layer) {
      for (const ProductShape& shape : shapes) {
        if ((std::string(shape.name) == "vocabulary") != (layer == kLayersOf8b)) continue;
        products_.push_back(
            std::make_unique<ModelProduct>(shape, epilogue_of(shape.name), products_.size() + 1, stream));
      }
    }
    add_rows(products_.front()->x_matrix());
    for (const auto& product : products_) {
      if (product->x_matrix().n_columns > rows_.back().first) add_rows(product->x_matrix());
    }
    check_first_and_last();
  }

  double bytes() const {
    double sum = 0;
    for (const auto& product : products_) sum += product->weight_bytes();
    return sum;
  }
  double time_ms(std::int64_t n_rows) const {
    return captured_ms(stream_, 1, [&](int) {
      for (const auto& product : products_) enqueue(product->job(x_of(*product), y_.get(), n_rows), stream_);
    });
  }

 private:
  void add_rows(const RandomMatrix& matrix) {
    rows_.emplace_back(matrix.n_columns,
                       std::make_unique<DeviceArray<std::uint16_t>>(size_of(matrix, Layout::kActivations)));
    fill(rows_.back().second->get(), matrix, Layout::kActivations, stream_);
  }
  const std::uint16_t* x_of(const ModelProduct& product) const {
    return rows_[product.x_matrix().n_columns == rows_.front().first ? 0 : 1].second->get();
  }
  void check_first_and_last() const {
    constexpr std::size_t kEnd = 5;  // the vocabulary and a layer's products
    for (std::size_t i = 0; i < products_.size(); ++i) {
      if (i >= kEnd && i + kEnd < products_.size()) continue;
      products_[i]->check_result(x_of(*products_[i]), y_, stream_);
    }
  }

  cudaStream_t stream_;
  std::vector<std::unique_ptr<ModelProduct>> products_;                                     // in the order of a step
  std::vector<std::pair<std::int64_t, std::unique_ptr<DeviceArray<std::uint16_t>>>> rows_;  // for each width
  DeviceArray<float> y_;
};

json measure() {
  const Stream stream;
  json out = {{"device", describe_device(stream.get())}};
  const double read = out["device"]["read_gb_s"], peak = out["device"]["peak_gb_s"];
  const DecodeStep step(stream.get());
  out["weight_bytes"] = step.bytes();
  double one = 0;
  for (const std::int64_t n_rows : {1, 2, 4, 8, 16}) {
    const double ms = step.time_ms(n_rows);
    if (n_rows == 1) one = ms;
    const double gb_s = step.bytes() / ms / 1e6;
    out["steps"].push_back({{"rows", n_rows},
                            {"ms", ms},
                            {"over_one_row", ms / one},
                            {"gb_s", gb_s},
                            {"share_of_read", gb_s / read},
                            {"share_of_peak", gb_s / peak}});
  }
  return out;
}

void print_table(const json& result) {
  const json& device = result["device"];
  std::printf("%s: reads %.0f GB/s of %.0f; %.1f GB of weights\n", device["name"].get<std::string>().c_str(),
              device["read_gb_s"].get<double>(), device["peak_gb_s"].get<double>(),
              result["weight_bytes"].get<double>() / 1e9);
  std::printf("%5s %9s %8s %9s %9s\n", "rows", "ms", "of one", "of read", "of peak");
  for (const json& step : result["steps"]) {
    std::printf("%5d %9.3f %8.3f %8.1f%% %8.1f%%\n", step["rows"].get<int>(), step["ms"].get<double>(),
                step["over_one_row"].get<double>(), 100 * step["share_of_read"].get<double>(),
                100 * step["share_of_peak"].get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  return slip::bench::run_benchmark(argc, argv, slip::bench::measure, slip::bench::print_table);
}
