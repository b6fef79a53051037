// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cli/cache_size.h"
#include "engine/cuda/make_target.h"
#include "engine/engine.h"
#include "kernels/cuda/device_queue.h"

namespace slip::cli {

// The device of target and drafts; null: the CPU. Errors as kernels::cuda::open_device().
using TargetDevice = std::shared_ptr<kernels::cuda::DeviceQueue>;
TargetDevice open_target_device(Device device);

// The proposer for the target of make_target(), on the same device.
std::unique_ptr<Proposer> make_proposer(const TargetDevice& device, const EngineOptions& options, Worker& target,
                                        kernels::ThreadPool& pool);

// Prepares draft versions for that device; empty for the CPU.
PackDraft draft_packing(const TargetDevice& device);

// Memory for the target's KV cache: by default a quarter of what this process may use, or half of the device memory
// that weights of this size leave.
CacheRoom cache_room(const TargetDevice& device, std::uint64_t weight_bytes);

}  // namespace slip::cli
