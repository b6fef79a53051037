// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace slip {

// Hex digits that identify the parts of a target that a draft must match: the configuration and the vocabulary, not the
// weights. Error{kNotFound | kInvalidArgument} naming a file that cannot be read.
std::string target_fingerprint(const std::filesystem::path& folder);

// The same, including the weights: every tensor's name, type and shape, and pieces spread evenly over its bytes (all
// bytes of a small one). Training changes every tensor throughout, so pieces identify a model without reading it twice
// at start. Errors likewise, and WeightFiles'.
std::string model_fingerprint(const std::filesystem::path& folder);

}  // namespace slip
