// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace slip {

// Hex digits that tell targets apart by what a draft must agree with: the configuration and the words, not the
// weights. Error{kNotFound | kInvalidArgument} naming a file that cannot be read.
std::string target_fingerprint(const std::filesystem::path& folder);

// The same with the weights: every tensor's name, type and shape, and pieces spread evenly over its bytes, a small one
// whole. Training moves every tensor all over, so pieces tell models apart without reading them twice at start. Errors
// likewise, and WeightFiles'.
std::string model_fingerprint(const std::filesystem::path& folder);

}  // namespace slip
