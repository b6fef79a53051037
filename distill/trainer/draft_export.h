// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/model_config.h"
#include "checkpoints/safetensors.h"
#include "engine/models/transformer.h"

namespace slip {

// The weights of one draft, exported by a trainer and held in memory. A candidate is scored and served from it; its
// files are written only if it is published. Immutable once built; any thread.
class DraftExport {
 public:
  // config.stored_dtype is the format of the stored tensors: bfloat16 or float32.
  explicit DraftExport(ModelConfig config) : config_(std::move(config)) {}

  // Adds a tensor, rounded to the stored format. Error{kDataLoss} naming it when a value is not finite.
  void add(const std::string& name, std::vector<std::int64_t> shape, const float* values, std::size_t n_values);

  // The weights packed for serving in `dtype`: the same bits as write() and ModelWeights::load().
  std::shared_ptr<const ModelWeights> weights(Dtype dtype) const;
  // Writes config.json and model.safetensors into an existing folder. Fail points `export.*`. Error{kIo}.
  void write(const std::filesystem::path& folder) const;

  std::size_t bytes() const;  // size of the stored tensors

 private:
  TensorMap tensors() const;

  struct Stored {
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  ModelConfig config_;
  std::map<std::string, Stored> stored_;
};

}  // namespace slip
