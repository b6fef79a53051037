// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checkpoints/llama_tensors.h"
#include "checkpoints/model_config.h"
#include "checkpoints/safetensors.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::testing {

// A random float32 Llama of a few thousand parameters, for tests that change one thing about it.
struct TinyLlama {
  struct Values {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };

  explicit TinyLlama(bool tied = false) {
    config.vocab_size = 32;
    config.hidden_size = 16;
    config.intermediate_size = 24;
    config.n_layers = 2;
    config.n_heads = 4;
    config.n_kv_heads = 2;
    config.head_dim = 4;
    config.max_positions = 64;
    config.tied_embeddings = tied;
    config.stored_dtype = Dtype::kFloat32;
    config.eos_ids = {1};
    for (const auto& [name, shape] : llama_tensor_shapes(config)) add(name, shape);
  }

  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t n = 1;
    for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
    std::vector<float> values(n);
    std::normal_distribution<float> normal(shape.size() == 1 ? 1.0F : 0.0F, 0.2F);
    for (float& value : values) value = normal(draw_);
    tensors[name] = {shape, values};
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::map<std::string, StoredTensor, std::less<>> stored;
    for (const auto& [name, tensor] : tensors) {
      stored[name] = {Dtype::kFloat32, tensor.shape, std::as_bytes(std::span(tensor.values))};
    }
    write_safetensors(folder / "model.safetensors", stored, {{"format", "pt"}}, "test");
    std::ofstream(folder / "config.json") << to_config_json(config);
  }

  ModelConfig config;
  std::map<std::string, Values> tensors;

 private:
  std::mt19937 draw_{17};
};

}  // namespace slip::testing
