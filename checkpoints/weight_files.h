// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/safetensors.h"

namespace slip {

// All weights of a Hugging Face folder: its model.safetensors, or the shards listed in model.safetensors.index.json.
// The index is untrusted too: a shard must be a plain file name in the same folder, and a tensor must be in exactly the
// shard that the index names. Throws Error{kNotFound | kInvalidArgument | kDataLoss | kUnsupported} naming file and
// tensor. Immutable; any thread.
class WeightFiles {
 public:
  explicit WeightFiles(const std::filesystem::path& folder);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const StoredTensor& get(std::string_view name) const;  // Error{kNotFound} naming tensor and file
  const TensorMap& tensors() const { return tensors_; }
  // Returns a tensor's page-cache memory to the system; a later read gets the same bytes from the file.
  static void release(const StoredTensor& tensor);
  const std::vector<std::filesystem::path>& paths() const { return paths_; }  // in the order of their names
  const std::string& where() const { return where_; }                         // the file, or the index, for messages

 private:
  void open_shards(const std::filesystem::path& folder);

  std::string where_;
  std::vector<std::filesystem::path> paths_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  TensorMap tensors_;  // points into files_
};

}  // namespace slip
