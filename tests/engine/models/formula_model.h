// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoints/llama_tensors.h"
#include "checkpoints/model_config.h"
#include "checkpoints/safetensors.h"
#include "engine/models/transformer.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::testing {

// The weights of tools/goldens_architectures.py, whose docstring has the formula: multiples of 1/128 that every dtype
// holds exactly.
inline std::vector<float> formula_values(const std::string& name, std::size_t n) {
  std::uint64_t start = 0xcbf29ce484222325;
  for (const char c : name) start = (start ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  const bool norm = name.ends_with("norm.weight");
  const float scale = norm || name.ends_with(".bias") ? 1.0F : name.ends_with("embed_tokens.weight") ? 2.0F : 0.5F;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t z = start + (i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    const auto k = static_cast<std::int32_t>((z ^ (z >> 31)) >> 57);
    values[i] = static_cast<float>(k - 64) / 128 * scale + (norm ? 1.0F : 0.0F);
  }
  return values;
}

// REQUIRES: a value that float16 holds exactly and normally, or zero.
inline std::uint16_t exact_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7FFFFFFFU;
  return static_cast<std::uint16_t>(magnitude == 0 ? sign : sign | (magnitude - (112U << 23)) >> 13);
}

inline std::vector<std::byte> exact_bytes(const std::vector<float>& values, Dtype dtype) {
  const std::size_t width = dtype_bytes(dtype);
  std::vector<std::byte> bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = dtype == Dtype::kFloat16
                                   ? exact_f16(values[i])
                                   : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
    const void* from = dtype == Dtype::kFloat32 ? static_cast<const void*>(&values[i]) : &half;
    std::memcpy(bytes.data() + i * width, from, width);
  }
  return bytes;
}

inline void write_formula_model(const std::filesystem::path& folder, const nlohmann::json& config, Dtype stored) {
  std::ofstream(folder / "config.json") << config;
  const ModelConfig read = load_model_config(folder);
  std::map<std::string, std::vector<std::byte>> bytes;
  TensorMap tensors;
  for (const auto& [name, shape] : llama_tensor_shapes(read)) {
    std::size_t n = 1;
    for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
    bytes[name] = exact_bytes(formula_values(name, n), stored);
    tensors[name] = {stored, shape, bytes[name]};
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}}, "test");
}

inline std::shared_ptr<const ModelWeights> formula_weights(const nlohmann::json& config, Dtype compute,
                                                           Dtype stored = Dtype::kFloat32) {
  const TemporaryFolder folder;
  write_formula_model(folder.path(), config, stored);
  return ModelWeights::load(folder.path(), compute);
}

// The cases of tests/goldens/architectures.json.
inline const nlohmann::json& architecture_goldens() {
  static const nlohmann::json cases = [] {
    std::ifstream file(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/goldens/architectures.json");
    return nlohmann::json::parse(file).at("cases");
  }();
  return cases;
}

inline std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const auto& golden : architecture_goldens()) names.push_back(golden.at("name"));
  return names;
}

inline const nlohmann::json& architecture_golden(const std::string& name) {
  for (const auto& golden : architecture_goldens()) {
    if (golden.at("name") == name) return golden;
  }
  throw std::runtime_error("no golden " + name);
}

}  // namespace slip::testing
