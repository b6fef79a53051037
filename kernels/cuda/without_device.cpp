// SPDX-License-Identifier: Apache-2.0
// Replaces stream_queue.cpp and enqueue.cpp in a build without CUDA.
#include "common/error.h"
#include "kernels/cuda/foreign_stream.h"
#include "kernels/cuda/stream_queue.h"

namespace slip::kernels::cuda {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kUnsupported, "this program was built without CUDA",
              "build it where nvcc 13 is on PATH (`slipstream version` then says `CUDA: yes`), or use device = \"cpu\"",
              "device");
}

}  // namespace

std::unique_ptr<DeviceQueue> open_device() {
  refuse();
}

std::string describe_device() {
  refuse();
}

void enqueue_on(void*, const Job&) {
  refuse();
}

}  // namespace slip::kernels::cuda
