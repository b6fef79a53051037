// SPDX-License-Identifier: Apache-2.0
// What every device benchmark needs: the device's name and bandwidth, random matrices, time by graphs. Threads: one.
// Throws DeviceFailure.
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

// Milliseconds a call: work(0) … work(n − 1) are captured as one graph, so that no launch is waited for, and the median
// of its repetitions is divided by n. i rotates the caller's copies, where one would stay in a cache.
double captured_ms(cudaStream_t stream, int n, const std::function<void(int)>& work);

float element_of(const RandomMatrix& matrix, std::int64_t row, std::int64_t column);
std::size_t size_of(const RandomMatrix& matrix, Layout layout);  // in bfloat16, with what its layout pads it to
void fill(std::uint16_t* to, const RandomMatrix& matrix, Layout layout, cudaStream_t stream);

// {name, multiprocessors, peak_gb_s, read_gb_s}: what its memory could bring by its clock, and the most that any of
// several plain kernels reads; each is asked for the sum of what it read before it is timed. SLIP_CHECK otherwise.
nlohmann::json describe_device(cudaStream_t stream);

// main() of a device benchmark: `--json` prints the result as it is, else `print_table` does.
int run_benchmark(int argc, char** argv, const std::function<nlohmann::json()>& run,
                  const std::function<void(const nlohmann::json&)>& print_table);

}  // namespace slip::bench
