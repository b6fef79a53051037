// SPDX-License-Identifier: Apache-2.0
// Common parts of device benchmarks: the device's name and bandwidth, random matrices, timing with graphs. Threads:
// one. Throws DeviceFailure.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "bench/device/common_matrix.h"
#include "kernels/cuda/device_array.h"

namespace slip::bench {

using kernels::cuda::check;
using kernels::cuda::DeviceArray;

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Milliseconds per call: captures work(0) … work(n − 1) as one graph, which excludes launch latency, and divides the
// median of its repetitions by n. i selects one of the caller's copies, so that data does not stay in a cache.
double captured_ms(cudaStream_t stream, int n, const std::function<void(int)>& work);

float element_of(const RandomMatrix& matrix, std::int64_t row, std::int64_t column);
std::size_t size_of(const RandomMatrix& matrix, Layout layout);  // in bfloat16, including the layout's padding
void fill(std::uint16_t* to, const RandomMatrix& matrix, Layout layout, cudaStream_t stream);

// {name, multiprocessors, peak_gb_s, read_gb_s}: the memory's theoretical bandwidth, and the best of several plain read
// kernels. Each kernel's sum is checked before timing (SLIP_CHECK).
nlohmann::json describe_device(cudaStream_t stream);

// main() of a device benchmark: `--json` prints the result as JSON, else `print_table` prints it.
int run_benchmark(int argc, char** argv, const std::function<nlohmann::json()>& run,
                  const std::function<void(const nlohmann::json&)>& print_table);

}  // namespace slip::bench
