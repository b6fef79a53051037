// SPDX-License-Identifier: Apache-2.0
// The matrix products of an 8B-shaped layer at 1 … 64 rows: time, share of the copy bandwidth, and what n rows cost
// over one. Before a shape is timed, an element is compared with a sum in double and one row alone with the same
// among 64.
#include <cmath>
#include <cstdio>
#include <exception>

#include "bench/device/timing.h"

namespace slip::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: the benchmark is of these

constexpr int kMostRows = 64, kRepeats = 50;

struct Shape {
  const char* name;
  std::int64_t n_out, n_in;
};

double copy_gb_per_s(cudaStream_t stream) {
  const std::size_t bytes = std::size_t{2} << 30;
  const DeviceArray<char> from(bytes), to(bytes);
  const double ms = median_ms(stream, 10, [&](int) {
    check(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  return 2.0 * static_cast<double>(bytes) / ms / 1e6;
}

class Product {
 public:
  explicit Product(const Shape& shape)
      : shape_(shape),
        weights_(static_cast<std::size_t>(packed_weight_elements(shape.n_out, shape.n_in))),
        // Copies beyond any cache: a product that is timed reads weights that no earlier one left there.
        n_copies_(static_cast<int>(std::max<std::size_t>(1, (std::size_t{1} << 29) / (2 * weights_)))),
        host_weight_(random_bf16(weights_, 1)),
        host_x_(random_bf16(static_cast<std::size_t>(activation_elements(kMostRows, shape.n_in)), 2)),
        weight_(weights_ * static_cast<std::size_t>(n_copies_)),
        x_(host_x_),
        y_(static_cast<std::size_t>(kMostRows * shape.n_out)) {
    for (int copy = 0; copy < n_copies_; ++copy) {
      check(cudaMemcpy(weight_.get() + weights_ * static_cast<std::size_t>(copy), host_weight_.data(), 2 * weights_,
                       cudaMemcpyHostToDevice),
            "copy to the device");
    }
  }
  bool is_right(cudaStream_t stream) const {
    run(kMostRows, 0, stream);
    check(cudaStreamSynchronize(stream), "product");
    const auto all = y_.values(static_cast<std::size_t>(kMostRows * shape_.n_out));
    run(1, 0, stream);
    check(cudaStreamSynchronize(stream), "product");
    const auto alone = y_.values(static_cast<std::size_t>(shape_.n_out));
    if (!std::equal(alone.begin(), alone.end(), all.begin())) return false;
    for (std::int64_t row : {0, 5, 63}) {
      for (std::int64_t output = 3; output < shape_.n_out; output += shape_.n_out / 5) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < shape_.n_in; ++k) {
          const double term = double{widen(host_weight_[static_cast<std::size_t>(weight_at(output, k, shape_.n_in))])} *
                              widen(host_x_[static_cast<std::size_t>(activation_at(row, k, shape_.n_in))]);
          sum += term;
          size += std::abs(term);
        }
        const double got = all[static_cast<std::size_t>(row * shape_.n_out + output)];
        if (!(std::abs(got - sum) <= 2e-6 * size)) return false;
      }
    }
    return true;
  }
  double time_ms(int n_rows, cudaStream_t stream) const {
    return median_ms(stream, kRepeats, [&](int i) { run(n_rows, i % n_copies_, stream); });
  }
  double bytes() const { return 2.0 * static_cast<double>(weights_); }

 private:
  void run(int n_rows, int copy, cudaStream_t stream) const {
    Matmul job;
    job.weight.data = weight_.get() + weights_ * static_cast<std::size_t>(copy);
    job.activations = x_.get();
    job.n_rows = n_rows;
    job.n_out = shape_.n_out;
    job.n_in = shape_.n_in;
    job.y = y_.get();
    job.y_stride = shape_.n_out;
    enqueue(job, stream);
  }
  Shape shape_;
  std::size_t weights_;
  int n_copies_;
  std::vector<std::uint16_t> host_weight_, host_x_;
  DeviceArray<std::uint16_t> weight_, x_;
  DeviceArray<float> y_;
};

int run() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "device properties");
  const double peak = copy_gb_per_s(stream);
  std::printf("%s, %d multiprocessors, copy %.0f GB/s\n", device.name, device.multiProcessorCount, peak);
  std::printf("%-10s %6s %6s | rows: microseconds (share of copy bandwidth, times one row)\n", "product", "n_out",
              "n_in");
  for (const Shape& shape : {Shape{"qkv", 6144, 4096}, Shape{"attention", 4096, 4096}, Shape{"gate_up", 28672, 4096},
                             Shape{"down", 4096, 14336}, Shape{"lm_head", 128256, 4096}}) {
    const Product product(shape);
    if (!product.is_right(stream)) {
      std::printf("%-10s is wrong: not timed\n", shape.name);
      return 1;
    }
    std::printf("%-10s %6ld %6ld |", shape.name, static_cast<long>(shape.n_out), static_cast<long>(shape.n_in));
    double one = 0;
    for (const int n_rows : {1, 2, 4, 8, 16, 32, 64}) {
      const double ms = product.time_ms(n_rows, stream);
      if (n_rows == 1) one = ms;
      std::printf(" %d: %.1f (%.0f%%, %.2f)", n_rows, ms * 1e3, product.bytes() / ms / 1e4 / peak, ms / one);
    }
    std::printf("\n");
  }
  cudaStreamDestroy(stream);
  return 0;
}

}  // namespace
}  // namespace slip::bench

int main() {
  try {
    return slip::bench::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_products: %s\n", error.what());
    return 1;
  }
}
