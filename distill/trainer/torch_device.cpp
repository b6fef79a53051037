// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_device.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <string>

#include "common/error.h"
#include "common/log.h"
#include "kernels/cuda/stream_queue.h"

namespace slip {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& reason, const std::string& hint) {
  throw Error(code, "learning.device = \"cuda\": " + reason, hint, "learning.device");
}

// Loads LibTorch's CUDA library, which registers itself. The program does not link it: it takes half a gigabyte plus
// its own dependencies, and only training on CUDA needs it.
void load_cuda_part() {
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* reason = ::dlerror();
  refuse(ErrorCode::kUnsupported, std::string("LibTorch's CUDA part cannot be loaded: ") + (reason ? reason : ""),
         "install torch with all the packages it names (`.venv/bin/pip install torch==2.11.0`), or set it to \"cpu\"");
}

c10::Stream background_stream() {
  try {
    kernels::cuda::describe_device();
  } catch (const Error& error) {
    refuse(error.code(), error.message(), "set it to \"cpu\"");
  }
  load_cuda_part();
  try {
    const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
    if (cuda.deviceCount() == 0) refuse(ErrorCode::kUnavailable, "LibTorch finds no CUDA device", "set it to \"cpu\"");
    const c10::Device first(c10::DeviceType::CUDA, 0);
    at::empty({1}, at::TensorOptions(first));  // fails here rather than at the first step
    return cuda.getStreamFromGlobalPool(first, /*isHighPriority=*/false);
  } catch (const c10::Error& error) {
    refuse(ErrorCode::kUnavailable, error.what_without_backtrace(), "set it to \"cpu\"");
  }
}

class LoggedWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    log_parts(LogLevel::kWarn, {"learning: LibTorch says: ", warning.msg()});
  }
};

}  // namespace

c10::WarningHandler& TorchDevice::logged_warnings() {
  static LoggedWarnings handler;
  return handler;
}

TorchDevice::TorchDevice(TrainingDevice where) {
  if (where == TrainingDevice::kCuda) stream_ = background_stream();
}

void check_training_device(TrainingDevice device) {
  TorchDevice{device};
}

}  // namespace slip
