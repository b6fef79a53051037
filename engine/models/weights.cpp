// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "checkpoints/finite_tensor.h"
#include "checkpoints/llama_tensors.h"
#include "checkpoints/weight_files.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/models/pack_weights.h"
#include "engine/models/transformer.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

// The value of element `index`. Uses memcpy, since the format does not align a tensor's data.
float element(const StoredTensor& tensor, std::size_t index) {
  if (tensor.dtype == Dtype::kFloat32) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + index * 4, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + index * 2, 2);
  return tensor.dtype == Dtype::kBFloat16 ? kernels::bf16_to_float(bits) : kernels::f16_to_float(bits);
}

std::size_t n_elements(const StoredTensor& tensor) {
  return tensor.bytes.size() / dtype_bytes(tensor.dtype);
}

std::vector<float> to_floats(const StoredTensor& tensor) {
  std::vector<float> values(n_elements(tensor));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(tensor, i);
  return values;
}

// Converts one checkpoint's tensors to the forms of the forward pass. `mapped`: the tensors are in mapped files, whose
// memory is released after reading.
class WeightReader {
 public:
  WeightReader(const TensorMap& tensors, bool mapped, Dtype compute)
      : tensors_(tensors), mapped_(mapped), compute_(compute) {}

  // The named matrices, stacked by rows: a fused projection. Releases the file's memory after reading, so that a model
  // is never in memory twice.
  kernels::PackedMatrix stacked(std::initializer_list<std::string> names) const {
    std::vector<kernels::MatrixRows> parts;
    for (const auto& name : names) {
      const StoredTensor& stored = get(name);
      parts.push_back({stored.bytes.data(), stored.dtype, stored.shape[0]});
    }
    kernels::PackedMatrix packed(parts, get(*names.begin()).shape[1], compute_);
    for (const auto& name : names) release(get(name));
    return packed;
  }

  kernels::PackedMatrix gated(const std::string& gate, const std::string& up) const {
    const auto rows = [&](const std::string& name) {
      const StoredTensor& stored = get(name);
      return kernels::MatrixRows{stored.bytes.data(), stored.dtype, stored.shape[0]};
    };
    const std::int64_t n_in = get(gate).shape[1];
    kernels::PackedMatrix packed(kernels::gated_parts(rows(gate), rows(up), n_in), n_in, compute_);
    for (const auto& name : {gate, up}) release(get(name));
    return packed;
  }

  std::vector<float> vector(const std::string& name) const { return to_floats(get(name)); }

  std::vector<std::byte> table(const std::string& name) const {
    const StoredTensor& stored = get(name);
    std::vector<std::byte> bytes(n_elements(stored) * dtype_bytes(compute_));
    if (stored.dtype == compute_) {
      std::copy(stored.bytes.begin(), stored.bytes.end(), bytes.begin());
      release(stored);
      return bytes;
    }
    for (std::size_t i = 0; i < n_elements(stored); ++i) {
      const float value = element(stored, i);
      const std::uint16_t half = kernels::float_to_bf16(value);
      if (compute_ == Dtype::kFloat32) {
        std::memcpy(bytes.data() + 4 * i, &value, 4);
      } else {
        std::memcpy(bytes.data() + 2 * i, &half, 2);
      }
    }
    release(stored);
    return bytes;
  }

  // The named vectors, concatenated in the order of stacked().
  std::vector<float> joined(std::initializer_list<std::string> names) const {
    std::vector<float> values;
    for (const auto& name : names) {
      const auto part = vector(name);
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  // REQUIRES: check_llama_tensors() passed, so a tensor of the names below is there iff the configuration has it.
  void read_features(const ModelConfig& config, std::int32_t index, ModelWeights::Layer& layer) const {
    const auto bias = [&](const char* part) { return layer_bias(index, part); };
    if (config.qkv_bias) {
      layer.qkv_bias = joined({bias("self_attn.q_proj"), bias("self_attn.k_proj"), bias("self_attn.v_proj")});
    }
    if (config.attention_out_bias) layer.attention_out_bias = vector(bias("self_attn.o_proj"));
    if (config.mlp_bias) {
      layer.gate_up_bias = joined({bias("mlp.gate_proj"), bias("mlp.up_proj")});
      layer.down_bias = vector(bias("mlp.down_proj"));
    }
    if (config.qk_norm) {
      layer.q_norm = vector(layer_tensor(index, "self_attn.q_norm"));
      layer.k_norm = vector(layer_tensor(index, "self_attn.k_norm"));
    }
  }

  ModelWeights::Layer layer(const ModelConfig& config, std::int32_t index) const {
    const auto name = [&](const char* part) { return layer_tensor(index, part); };
    ModelWeights::Layer layer;
    layer.attention_norm = vector(name("input_layernorm"));
    layer.ffn_norm = vector(name("post_attention_layernorm"));
    layer.qkv = stacked({name("self_attn.q_proj"), name("self_attn.k_proj"), name("self_attn.v_proj")});
    layer.attention_out = stacked({name("self_attn.o_proj")});
    layer.gate_up = gated(name("mlp.gate_proj"), name("mlp.up_proj"));
    layer.down = stacked({name("mlp.down_proj")});
    read_features(config, index, layer);
    return layer;
  }

 private:
  const StoredTensor& get(const std::string& name) const { return tensors_.find(name)->second; }
  void release(const StoredTensor& tensor) const {
    if (mapped_) WeightFiles::release(tensor);
  }

  const TensorMap& tensors_;
  bool mapped_;
  Dtype compute_;
};

void require_finite(const TensorMap& tensors, bool mapped, const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    const bool finite = is_finite(tensor);
    if (mapped) WeightFiles::release(tensor);
    if (finite) continue;
    throw Error(ErrorCode::kDataLoss, where + ": tensor " + name + " holds a NaN or an infinity",
                "the training that wrote it diverged; use an earlier version");
  }
}

// A checkpoint's tensors, their origin and how to read them.
struct Checkpoint {
  const TensorMap& tensors;
  bool mapped = false;
  std::string where;
};

std::shared_ptr<const ModelWeights> pack(const Checkpoint& checkpoint, const ModelConfig& config, Dtype dtype,
                                         bool check_finite) {
  if (dtype == Dtype::kFloat16) {
    throw Error(ErrorCode::kUnsupported, "float16 is not a serving format", "choose bfloat16 or float32", "dtype");
  }
  kernels::isa_class();  // throws here, not in a pool's worker, when the environment names an invalid class
  const std::int64_t start_us = monotonic_us();
  auto weights = std::make_shared<ModelWeights>();
  weights->config = config;
  weights->dtype = dtype;
  check_llama_tensors(checkpoint.tensors, config, checkpoint.where);
  if (check_finite) require_finite(checkpoint.tensors, checkpoint.mapped, checkpoint.where);
  const WeightReader reader(checkpoint.tensors, checkpoint.mapped, dtype);
  if (!config.tied_embeddings) weights->embedding = reader.table(kEmbeddingTensor);
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) weights->layers.push_back(reader.layer(config, layer));
  weights->final_norm = reader.vector(kFinalNormTensor);
  weights->lm_head = reader.stacked({config.tied_embeddings ? kEmbeddingTensor : kLmHeadTensor});
  weights->load_us = monotonic_us() - start_us;
  return weights;
}

}  // namespace

std::shared_ptr<const ModelWeights> ModelWeights::load(const std::filesystem::path& folder, Dtype dtype,
                                                       bool check_finite) {
  const ModelConfig config = load_model_config(folder);
  const WeightFiles file(folder);
  return pack({file.tensors(), /*mapped=*/true, file.where()}, config, dtype, check_finite);
}

std::shared_ptr<const ModelWeights> pack_weights(const ModelConfig& config, const TensorMap& tensors, Dtype dtype) {
  return pack({tensors, /*mapped=*/false, "a checkpoint in memory"}, config, dtype, /*check_finite=*/true);
}

std::size_t ModelWeights::bytes() const {
  std::size_t total = embedding.size() + lm_head.bytes() + final_norm.size() * sizeof(float);
  for (const Layer& layer : layers) {
    total += layer.qkv.bytes() + layer.attention_out.bytes() + layer.gate_up.bytes() + layer.down.bytes();
    for (const auto* vector : {&layer.attention_norm, &layer.ffn_norm, &layer.qkv_bias, &layer.attention_out_bias,
                               &layer.gate_up_bias, &layer.down_bias, &layer.q_norm, &layer.k_norm}) {
      total += vector->size() * sizeof(float);
    }
  }
  return total;
}

}  // namespace slip
