// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace slip::cli {

// Version, commit, compiler, LibTorch, CUDA and CPU features, one a line.
std::string version_text();
// The same as one JSON object.
std::string version_json();

}  // namespace slip::cli
