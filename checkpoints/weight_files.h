// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/safetensors.h"

namespace slip {

// All weights of a Hugging Face folder: those of its model.safetensors, or else of the shards that its
// model.safetensors.index.json names. The index is as hostile as the files: a shard is a plain file name in the same
// folder, and a tensor stands in the one shard that the index gives for it and in no other. Throws Error{kNotFound |
// kInvalidArgument | kDataLoss | kUnsupported} naming file and tensor.
class WeightFiles {
 public:
  explicit WeightFiles(const std::filesystem::path& folder);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const StoredTensor& get(std::string_view name) const;  // Error{kNotFound} naming tensor and file
  const TensorMap& tensors() const { return tensors_; }
  // Hands the memory that reading a tensor took back to the system: who reads again gets the same bytes from the file.
  static void release(const StoredTensor& tensor);
  const std::vector<std::filesystem::path>& paths() const { return paths_; }  // in the order of their names
  const std::string& where() const { return where_; }                         // the file, or the index, for messages

 private:
  void open_shards(const std::filesystem::path& folder);

  std::string where_;
  std::vector<std::filesystem::path> paths_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  TensorMap tensors_;  // bytes live as long as files_
};

}  // namespace slip
