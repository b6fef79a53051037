// SPDX-License-Identifier: Apache-2.0
#include "bench/device/common_device.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "bench/common/result.h"
#include "bench/device/common_launch.h"
#include "bench/device/common_random.h"
#include "common/error.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/weights.cuh"

namespace slip::bench {
namespace {

constexpr int kWarmUps = 3, kRepeats = 21;

template <class Handle, auto kDestroy>
struct Owned {
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle != nullptr) kDestroy(handle);
  }
  Handle handle = nullptr;
};

// Ends the capture after an exception; otherwise the stream would refuse all later work.
void capture(cudaStream_t stream, int n, const std::function<void(int)>& work, cudaGraph_t* graph) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin of a capture");
  try {
    for (int i = 0; i < n; ++i) work(i);
  } catch (...) {
    cudaStreamEndCapture(stream, graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, graph), "end of a capture");
}

int attribute(cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, 0), "a device attribute");
  return value;
}

double best_read_gb_per_s(cudaStream_t stream) {
  constexpr std::size_t kBytes = std::size_t{4} << 30;  // much larger than any cache
  const DeviceArray<char> memory(kBytes);
  const DeviceArray<unsigned long long> sum(std::size_t{1});
  check(cudaMemsetAsync(memory.get(), 1, kBytes, stream), "memset");
  double best = 0;
  for (const int loads : {4, 8}) {
    for (const int blocks_a_processor : {2, 4, 8}) {
      const ReadProbe probe{loads, blocks_a_processor * attribute(cudaDevAttrMultiProcessorCount)};
      const auto read = [&](int) { check(launch_read(probe, memory.get(), kBytes, sum.get(), stream), "read probe"); };
      check(cudaMemsetAsync(sum.get(), 0, sizeof(unsigned long long), stream), "memset");
      read(0);
      SLIP_CHECK(sum.values()[0] == 0x01010101ULL * (kBytes / 4), "a probe reads all that it is timed for");
      best = std::max(best, static_cast<double>(kBytes) / captured_ms(stream, 1, read) / 1e6);
    }
  }
  return best;
}

}  // namespace

double captured_ms(cudaStream_t stream, int n, const std::function<void(int)>& work) {
  Owned<cudaGraph_t, cudaGraphDestroy> graph;
  Owned<cudaGraphExec_t, cudaGraphExecDestroy> run;
  Owned<cudaEvent_t, cudaEventDestroy> begin, end;
  capture(stream, n, work, &graph.handle);
  check(cudaGraphInstantiate(&run.handle, graph.handle, 0), "instantiation of a graph");
  check(cudaEventCreate(&begin.handle), "event");
  check(cudaEventCreate(&end.handle), "event");
  std::vector<double> times;
  for (int i = -kWarmUps; i < kRepeats; ++i) {
    check(cudaEventRecord(begin.handle, stream), "record");
    check(cudaGraphLaunch(run.handle, stream), "launch of a graph");
    check(cudaEventRecord(end.handle, stream), "record");
    check(cudaEventSynchronize(end.handle), "the timed work");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.handle, end.handle), "elapsed time");
    if (i >= 0) times.push_back(ms);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2] / n;
}

float element_of(const RandomMatrix& matrix, std::int64_t row, std::int64_t column) {
  return kernels::cuda::widen(random_half(matrix.seed, static_cast<std::uint64_t>(row * matrix.n_columns + column)));
}

std::size_t size_of(const RandomMatrix& matrix, Layout layout) {
  std::int64_t n = matrix.n_rows * matrix.n_columns;
  if (layout == Layout::kWeights) n = kernels::cuda::packed_weight_elements(matrix.n_rows, matrix.n_columns);
  if (layout == Layout::kActivations) n = kernels::cuda::activation_elements(matrix.n_rows, matrix.n_columns);
  return static_cast<std::size_t>(n);
}

void fill(std::uint16_t* to, const RandomMatrix& matrix, Layout layout, cudaStream_t stream) {
  check(launch_fill(to, matrix, layout, stream), "fill");
}

nlohmann::json describe_device(cudaStream_t stream) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "device properties");
  // Two transfers per clock; the clock in kHz, the bus width in bits.
  const double peak = 2.0 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8e6;
  return {{"name", properties.name},
          {"multiprocessors", properties.multiProcessorCount},
          {"peak_gb_s", peak},
          {"read_gb_s", best_read_gb_per_s(stream)}};
}

int run_benchmark(int argc, char** argv, const std::function<nlohmann::json()>& run,
                  const std::function<void(const nlohmann::json&)>& print_table) {
  const bool as_json = argc == 2 && std::string_view(argv[1]) == "--json";
  if (argc > 1 && !as_json) {
    std::fprintf(stderr, "usage: %s [--json]\n", argv[0]);
    return 2;
  }
  try {
    return show_result(argv[0], as_json, run, print_table);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace slip::bench
