// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/inflate.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/llama_tensors.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/weight_files.h"
#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

// Maps each row or column of a small matrix to its places in the large one; a key/value head may have several.
using IndexMap = std::vector<std::vector<std::int64_t>>;

enum class Padding { kZero, kRandom };

struct HeadMaps {
  IndexMap queries, keys;
};

[[noreturn]] void refuse(const char* option, const std::string& why, const std::string& hint = {}) {
  throw Error(ErrorCode::kInvalidArgument, std::string(option) + ": " + why, hint, option);
}

std::int32_t at_least(const char* option, std::int32_t wanted, std::int32_t small) {
  if (wanted == 0) return small;
  if (wanted < small) refuse(option, "must be at least the model's own " + std::to_string(small));
  return wanted;
}

// If so, the norms' factor sqrt(d/d') is a power of 2, which every format represents exactly.
bool widens_by_power_of_four(const ModelConfig& small, const ModelConfig& large) {
  if (large.hidden_size % small.hidden_size != 0) return false;
  const auto ratio = static_cast<std::uint32_t>(large.hidden_size / small.hidden_size);
  return std::has_single_bit(ratio) && std::countr_zero(ratio) % 2 == 0;
}

// If the large model has groups of g' queries, a group of g query heads needs ceil(g / g') copies of its key/value
// head.
std::int32_t copies_per_key_head(const ModelConfig& small, const ModelConfig& large) {
  const std::int32_t group = small.n_heads / small.n_kv_heads, new_group = large.n_heads / large.n_kv_heads;
  return (group + new_group - 1) / new_group;
}

void check_heads(const ModelConfig& small, const ModelConfig& large) {
  if (large.n_heads % large.n_kv_heads != 0) refuse("--kv-heads", "must divide --heads");
  const std::int32_t needed = small.n_kv_heads * copies_per_key_head(small, large);
  if (large.n_kv_heads < needed) {
    refuse("--kv-heads", "groups this small need " + std::to_string(needed) + " key/value heads",
           "keep " + std::to_string(small.n_heads / small.n_kv_heads) + " query heads for each key/value head");
  }
}

IndexMap identity(std::int64_t n) {
  IndexMap map;
  for (std::int64_t i = 0; i < n; ++i) map.push_back({i});
  return map;
}

void place_head(IndexMap& map, std::int64_t from, std::int64_t to, std::int64_t head_dim) {
  for (std::int64_t e = 0; e < head_dim; ++e)
    map[static_cast<std::size_t>(from * head_dim + e)].push_back(to * head_dim + e);
}

HeadMaps map_heads(const ModelConfig& small, const ModelConfig& large) {
  const std::int32_t group = small.n_heads / small.n_kv_heads, new_group = large.n_heads / large.n_kv_heads;
  const std::int32_t copies = copies_per_key_head(small, large);
  HeadMaps maps;
  maps.queries.resize(static_cast<std::size_t>(small.n_heads) * static_cast<std::size_t>(small.head_dim));
  maps.keys.resize(static_cast<std::size_t>(small.n_kv_heads) * static_cast<std::size_t>(small.head_dim));
  for (std::int32_t head = 0; head < small.n_heads; ++head) {
    const std::int32_t member = head % group, key_head = head / group * copies + member / new_group;
    place_head(maps.queries, head, key_head * new_group + member % new_group, small.head_dim);
  }
  for (std::int32_t head = 0; head < small.n_kv_heads; ++head) {
    for (std::int32_t copy = 0; copy < copies; ++copy)
      place_head(maps.keys, head, head * copies + copy, small.head_dim);
  }
  return maps;
}

// SplitMix64: a few nanoseconds per value, for models of over 100 million weights.
class RandomWeights {
 public:
  explicit RandomWeights(std::uint64_t seed) : state_(seed) {}
  float next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    const double unit = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
    return static_cast<float>((unit - 0.5) * 0.07);  // standard deviation 0.02, the initialization of Llama models
  }

 private:
  std::uint64_t state_;
};

void put(std::byte* to, float value, Dtype dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == Dtype::kFloat32) {
    std::memcpy(to, &bits, 4);
  } else {
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(to, &upper, 2);
  }
}

float take(const std::byte* from, Dtype dtype) {
  std::uint32_t bits = 0;
  std::memcpy(dtype == Dtype::kFloat32 ? reinterpret_cast<std::byte*>(&bits) : reinterpret_cast<std::byte*>(&bits) + 2,
              from, dtype_bytes(dtype));
  return std::bit_cast<float>(bits);
}

struct Matrix {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> shape;
  Dtype dtype = Dtype::kBFloat16;
};

Matrix filled(std::vector<std::int64_t> shape, Dtype dtype, Padding padding, RandomWeights& random) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  const std::size_t width = dtype_bytes(dtype);
  Matrix matrix{std::vector<std::byte>(static_cast<std::size_t>(n) * width), std::move(shape), dtype};
  if (padding == Padding::kZero) return matrix;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
    put(matrix.bytes.data() + i * width, random.next(), dtype);
  return matrix;
}

void embed_matrix(const StoredTensor& small, const IndexMap& rows, const IndexMap& columns, Matrix& large) {
  const std::size_t width = dtype_bytes(small.dtype);
  const auto n_columns = static_cast<std::size_t>(small.shape[1]), stride = static_cast<std::size_t>(large.shape[1]);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const std::int64_t to_row : rows[row]) {
      std::byte* to = large.bytes.data() + static_cast<std::size_t>(to_row) * stride * width;
      for (std::size_t column = 0; column < n_columns; ++column) {
        for (const std::int64_t to_column : columns[column]) {
          std::memcpy(to + static_cast<std::size_t>(to_column) * width,
                      small.bytes.data() + (row * n_columns + column) * width, width);
        }
      }
    }
  }
}

class Inflation {
 public:
  Inflation(const WeightFiles& file, const ModelConfig& small, const ModelConfig& large, std::uint64_t seed)
      : file_(file), small_(small), large_(large), heads_(map_heads(small, large)), random_(seed) {}

  std::map<std::string, Matrix> run() {
    const IndexMap hidden = identity(small_.hidden_size), vocabulary = identity(small_.vocab_size);
    place(kEmbeddingTensor, vocabulary, hidden, Padding::kZero);
    if (!small_.tied_embeddings) place(kLmHeadTensor, vocabulary, hidden, Padding::kZero);
    scale_norm(kFinalNormTensor);
    for (std::int32_t layer = 0; layer < small_.n_layers; ++layer) widen_layer(layer, hidden);
    for (std::int32_t layer = small_.n_layers; layer < large_.n_layers; ++layer) add_layer(layer);
    return std::move(tensors_);
  }

 private:
  std::vector<std::int64_t> large_shape(const std::string& name) const { return shapes_.at(name); }

  // Padding that leads into a branch is random, so it costs as much as real weights. Padding back to the residual
  // stream is zero.
  void place(const std::string& name, const IndexMap& rows, const IndexMap& columns, Padding padding) {
    const StoredTensor& small = file_.get(name);
    Matrix large = filled(large_shape(name), small.dtype, padding, random_);
    embed_matrix(small, rows, columns, large);
    tensors_.emplace(name, std::move(large));
  }

  void widen_layer(std::int32_t layer, const IndexMap& hidden) {
    const auto name = [&](const char* part) { return layer_tensor(layer, part); };
    const IndexMap ffn = identity(small_.intermediate_size);
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) scale_norm(name(norm));
    place(name("self_attn.q_proj"), heads_.queries, hidden, Padding::kRandom);
    place(name("self_attn.k_proj"), heads_.keys, hidden, Padding::kRandom);
    place(name("self_attn.v_proj"), heads_.keys, hidden, Padding::kRandom);
    place(name("self_attn.o_proj"), hidden, heads_.queries, Padding::kZero);
    place(name("mlp.gate_proj"), ffn, hidden, Padding::kRandom);
    place(name("mlp.up_proj"), ffn, hidden, Padding::kRandom);
    place(name("mlp.down_proj"), hidden, ffn, Padding::kZero);
  }

  void add_layer(std::int32_t layer) {
    const Dtype dtype = file_.get(kEmbeddingTensor).dtype;
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj",
                             "self_attn.o_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"}) {
      const std::string name = layer_tensor(layer, part);
      const bool back = name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
      tensors_.emplace(name, filled(large_shape(name), dtype, back ? Padding::kZero : Padding::kRandom, random_));
    }
  }

  void scale_norm(const std::string& name) {
    const StoredTensor& small = file_.get(name);
    const Dtype dtype = widens_by_power_of_four(small_, large_) ? small.dtype : Dtype::kFloat32;
    Matrix large = filled(large_shape(name), dtype, Padding::kZero, random_);
    const double scale = std::sqrt(static_cast<double>(small_.hidden_size) / large_.hidden_size);
    const std::size_t width = dtype_bytes(small.dtype), new_width = dtype_bytes(dtype);
    for (std::size_t i = 0; i < small.bytes.size() / width; ++i) {
      const double weight = take(small.bytes.data() + i * width, small.dtype) * scale;
      put(large.bytes.data() + i * new_width, static_cast<float>(weight), dtype);
    }
    tensors_.emplace(name, std::move(large));
  }

  const WeightFiles& file_;
  const ModelConfig& small_;
  const ModelConfig& large_;
  const HeadMaps heads_;
  const std::map<std::string, std::vector<std::int64_t>> shapes_ = llama_tensor_shapes(large_);
  RandomWeights random_;
  std::map<std::string, Matrix> tensors_;
};

void require_no_float16(const WeightFiles& file) {
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.dtype == Dtype::kFloat16) refuse("--from", name + " is float16; bfloat16 and float32 can be inflated");
  }
}

void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                           "generation_config.json"}) {
    if (!std::filesystem::exists(from / name)) continue;
    copy_durably(from / name, to / name);
  }
}

}  // namespace

ModelConfig inflated_config(const ModelConfig& small, const InflateShape& shape) {
  if (const std::string key = small.beyond_plain_llama(); !key.empty()) {
    throw Error(ErrorCode::kUnsupported, "--from: \"" + key + "\" asks for more than a plain Llama has",
                "inflate a model without biases, q/k norms, windows and rope scaling", key);
  }
  ModelConfig large = small;
  large.hidden_size = at_least("--hidden", shape.hidden_size, small.hidden_size);
  large.n_layers = at_least("--layers", shape.n_layers, small.n_layers);
  large.intermediate_size = at_least("--ffn", shape.intermediate_size, small.intermediate_size);
  large.n_heads = at_least("--heads", shape.n_heads, small.n_heads);
  large.n_kv_heads = at_least("--kv-heads", shape.n_kv_heads, small.n_kv_heads);
  check_heads(small, large);
  large.max_positions = at_least("--positions", shape.max_positions, small.max_positions);
  large.rms_norm_eps = small.rms_norm_eps * small.hidden_size / large.hidden_size;
  return large;
}

void inflate_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, const InflateShape& shape,
                        std::uint64_t seed) {
  ModelConfig small = load_model_config(from);
  const WeightFiles file(from);
  check_llama_tensors(file.tensors(), small, file.where());
  small.stored_dtype = file.get(kEmbeddingTensor).dtype;  // config.json may state another one
  const ModelConfig large = inflated_config(small, shape);
  require_no_float16(file);
  std::filesystem::create_directories(to);
  if (std::filesystem::equivalent(from, to)) refuse("--to", "must not be the folder of --from");
  const auto matrices = Inflation(file, small, large, seed).run();
  TensorMap tensors;
  for (const auto& [name, matrix] : matrices) tensors[name] = {matrix.dtype, matrix.shape, matrix.bytes};
  write_safetensors(to / "model.safetensors.tmp", tensors, {{"format", "pt"}}, "inflate");
  rename_path(to / "model.safetensors.tmp", to / "model.safetensors", "inflate");
  copy_companions(from, to);
  replace_file(to / "config.json", to_config_json(large), "inflate");
}

}  // namespace slip
