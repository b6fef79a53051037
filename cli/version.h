// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// Version, commit, compiler, LibTorch, CUDA and CPU features, one a line.
std::string version_text();

}  // namespace slip::cli
