// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "common/tensor_view.h"

namespace slip::cli {

// Version, commit, compiler, LibTorch, CUDA, its device and CPU features, one a line.
std::string version_text();
// The same as one JSON object.
std::string version_json();

// "fp_" and 16 hex digits for what a seeded answer depends on besides the request: this build, the instructions that
// this machine chose (or the CUDA device), and the target in `target` (model_fingerprint(), whose errors it throws)
// computed in `dtype`.
// Which draft runs ahead makes no difference, so none has a part in it.
std::string system_fingerprint(const std::filesystem::path& target, Dtype dtype, Device device = Device::kCpu);

}  // namespace slip::cli
