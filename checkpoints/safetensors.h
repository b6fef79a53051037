// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/tensor_view.h"

namespace slip {

struct StoredTensor {
  Dtype dtype = Dtype::kFloat32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // valid while the file object lives

  bool operator==(const StoredTensor& other) const;  // compares the bytes too
};

using TensorMap = std::map<std::string, StoredTensor, std::less<>>;

// A read-only, checked safetensors file. The header is untrusted: length ≤ 100,000,000, a JSON object without duplicate
// keys, overflow-checked shape products, offsets that cover the buffer without hole or overlap. Throws Error{kDataLoss
// | kInvalidArgument} naming file and tensor. The file is memory-mapped. Its readers drop the mapping once the weights
// are packed, so a later truncation cannot cause a fault (docs/security.md, S16).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const TensorMap& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  TensorMap tensors_;
  std::map<std::string, std::string> metadata_;
};

// Writes a file that SafetensorsFile and other readers accept: tensors in name order, header padded to 8 bytes. Not
// atomic: callers write into a temporary folder and rename it. Fail points `<point>.*`.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata, std::string_view point);

}  // namespace slip
