// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes LibTorch: only for the trainer's own .cpp files.
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <optional>

#include "distill/trainer/draft_trainer.h"

namespace slip {

inline c10::ScalarType torch_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBFloat16:
      return c10::ScalarType::BFloat16;
    case Dtype::kFloat16:
      return c10::ScalarType::Half;
    default:
      return c10::ScalarType::Float;
  }
}

// The device of a trainer's tensors, and the low-priority stream for its work on a GPU, behind the work of serving.
// Copies share device and stream. Threads: one owner.
class TorchDevice {
 public:
  // Errors as check_training_device().
  explicit TorchDevice(TrainingDevice where);

  at::Device get() const { return stream_ ? stream_->device() : at::Device(at::kCPU); }
  bool is_cpu() const { return !stream_; }
  void* stream() const { return stream_->native_handle(); }  // a cudaStream_t; REQUIRES: !is_cpu()

  // While it lives, LibTorch work of this thread goes to the trainer's stream, and LibTorch's warnings to our log.
  class Turn {
   public:
    explicit Turn(const TorchDevice& device) : guard_(device.stream_), warnings_(&logged_warnings()) {}

   private:
    c10::OptionalStreamGuard guard_;
    c10::WarningUtils::WarningHandlerGuard warnings_;
  };

 private:
  static c10::WarningHandler& logged_warnings();

  std::optional<c10::Stream> stream_;
};

}  // namespace slip
