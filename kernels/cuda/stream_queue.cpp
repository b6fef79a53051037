// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/stream_queue.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/error.h"
#include "kernels/cuda/enqueue.h"

namespace slip::kernels::cuda {
namespace {

constexpr std::size_t kBorder = 256;
constexpr int kDevice = 0;

class StreamGraph final : public DeviceGraph {
 public:
  explicit StreamGraph(cudaGraph_t graph) { check(cudaGraphInstantiate(&ready_, graph, 0), "instantiate a graph"); }
  StreamGraph(const StreamGraph&) = delete;
  StreamGraph& operator=(const StreamGraph&) = delete;
  ~StreamGraph() override { cudaGraphExecDestroy(ready_); }
  cudaGraphExec_t ready() const { return ready_; }

 private:
  cudaGraphExec_t ready_ = nullptr;
};

// Turns an error of cudaMalloc or cudaMallocHost into an Error with a next step.
void* allocated(cudaError_t error, void* memory, std::size_t bytes, const char* where) {
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error: it was reported, and the next launch must not see it
    throw Error(ErrorCode::kTooLarge, "no " + std::to_string(bytes >> 20) + " MiB of memory " + where,
                "lower the number of cached tokens or of rows a step, or take a smaller model");
  }
  check(error, where);
  return memory;
}

class StreamQueue final : public DeviceQueue {
 public:
  StreamQueue() {
    int least = 0, greatest = 0;
    check(cudaSetDevice(kDevice), "cudaSetDevice");
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
  }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;
  ~StreamQueue() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, std::max(bytes, kBorder));
    return allocated(error, memory, bytes, "on the device");
  }
  void release(void* memory) noexcept override { cudaFree(memory); }
  void* allocate_host(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMallocHost(&memory, std::max(bytes, kBorder));
    return allocated(error, memory, bytes, "that the device can copy from");
  }
  void release_host(void* memory) noexcept override { cudaFreeHost(memory); }
  std::size_t free_bytes() override {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  void copy_in(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copy to the device");
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the device");
  }
  void copy_blocks(void* to, const void* from, const StridedBlocks& blocks) override {
    check(cudaMemcpy2DAsync(to, blocks.stride, from, blocks.stride, blocks.bytes, blocks.count,
                            cudaMemcpyDeviceToDevice, stream_),
          "copy on the device");
  }
  void wait() override { check(cudaStreamSynchronize(stream_), "the work of the stream"); }

  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& put_jobs) override {
    // Relaxed mode: the first launch of a kernel loads it, also during a capture.
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "begin a capture");
    cudaGraph_t graph = nullptr;
    try {
      put_jobs();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "end a capture");
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owner(graph, cudaGraphDestroy);
    return std::make_unique<StreamGraph>(graph);
  }
  void replay(const DeviceGraph& graph) override {
    check(cudaGraphLaunch(static_cast<const StreamGraph&>(graph).ready(), stream_), "launch a graph");
  }

 private:
  void put(const Job& job) override { cuda::enqueue(job, stream_); }

  cudaStream_t stream_ = nullptr;
};

void require_device() {
  int n = 0;
  const cudaError_t error = cudaGetDeviceCount(&n);
  if (error == cudaSuccess && n > 0) return;
  cudaGetLastError();
  const bool no_driver = error == cudaErrorInsufficientDriver;  // or one that is too old
  throw Error(ErrorCode::kUnavailable,
              std::string("no CUDA device can be used: ") +
                  (error == cudaSuccess ? "none is visible" : cudaGetErrorString(error)),
              no_driver
                  ? "install a driver for CUDA 13 or newer (`nvidia-smi` shows which one there is), or use device = "
                    "\"cpu\""
                  : "check that `nvidia-smi` lists one and that CUDA_VISIBLE_DEVICES does not hide it, or use device = "
                    "\"cpu\"",
              "device");
}

}  // namespace

std::unique_ptr<DeviceQueue> open_device() {
  require_device();
  return std::make_unique<StreamQueue>();
}

std::string describe_device() {
  require_device();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, kDevice), "device properties");
  return std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem >> 30) + " GiB";
}

}  // namespace slip::kernels::cuda
