// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "common/tensor_view.h"

namespace slip::cli {

// Version, commit, compiler, LibTorch, CUDA, its device and CPU features, one per line.
std::string version_text();
// The same as one JSON object.
std::string version_json();

// The processor's name as CPUID has it.
std::string processor_name();

// "fp_" and 16 hex digits that identify everything a seeded answer depends on besides the request: this build, the
// instruction class (or CUDA device), and the model in `target` (model_fingerprint(), whose errors it throws) computed
// in `dtype`. Drafts do not change answers, so they are not included.
std::string system_fingerprint(const std::filesystem::path& target, Dtype dtype, Device device = Device::kCpu);

}  // namespace slip::cli
