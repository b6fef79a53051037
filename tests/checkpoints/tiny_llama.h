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
#include "tests/checkpoints/tiny_config.h"

namespace slip::testing {

// A random float32 Llama, of a few thousand parameters by default, for tests that change one thing about it.
struct TinyLlama {
  struct Values {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };

  explicit TinyLlama(bool tied = false)
      : TinyLlama(tiny_config({.vocab_size = 32,
                               .hidden_size = 16,
                               .intermediate_size = 24,
                               .n_layers = 2,
                               .n_heads = 4,
                               .max_positions = 64,
                               .tied_embeddings = tied,
                               .eos_ids = {1}})) {}
  explicit TinyLlama(const ModelConfig& of) : config(of) {
    config.stored_dtype = Dtype::kFloat32;
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

  // As they stand in a file; its bytes are those of `tensors`.
  TensorMap stored() const {
    TensorMap map;
    for (const auto& [name, tensor] : tensors) {
      map[name] = {Dtype::kFloat32, tensor.shape, std::as_bytes(std::span(tensor.values))};
    }
    return map;
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_safetensors(folder / "model.safetensors", stored(), {{"format", "pt"}}, "test");
    std::ofstream(folder / "config.json") << to_config_json(config);
  }

  ModelConfig config;
  std::map<std::string, Values> tensors;

 private:
  std::mt19937 draw_{17};
};

}  // namespace slip::testing
