// SPDX-License-Identifier: Apache-2.0
// What the device benchmarks share: random bits of sane size, and the median time of a piece of work.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "kernels/cuda/device_array.h"

namespace slip::bench {

using kernels::cuda::check;
using kernels::cuda::DeviceArray;

// bfloat16 of either sign between 0.0078 and 1: a repeated block, for drawing gigabytes would take longer than the
// runs.
inline std::vector<std::uint16_t> random_bf16(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint16_t> out(n);
  const std::size_t block = std::min<std::size_t>(n, std::size_t{1} << 20);
  for (std::size_t i = 0; i < block; ++i) {
    const std::uint64_t bits = random();
    out[i] = static_cast<std::uint16_t>((bits & 0x8000U) | (0x3C00U + bits % 0x380U));
  }
  for (std::size_t i = block; i < n; ++i) out[i] = out[i - block];
  return out;
}

// Median of the milliseconds that work(i) takes on `stream`, after a warm-up; i rotates the caller's copies of its
// data.
inline double median_ms(cudaStream_t stream, int repeats, const std::function<void(int)>& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = -3; i < repeats; ++i) {
    check(cudaEventRecord(begin, stream), "record");
    work(i + 3);
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "the timed work");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed time");
    if (i >= 0) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace slip::bench
