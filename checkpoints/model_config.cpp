// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "checkpoints/architecture.h"
#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

using nlohmann::json;

// Larger than any known Llama, but small enough that no product of two overflows and tables sized by them fit in
// memory.
constexpr JsonFields::IntegerRange kVocabulary{1, 1 << 24};
constexpr JsonFields::IntegerRange kWidth{1, 1 << 20};
constexpr JsonFields::IntegerRange kLayers{1, 1024};
constexpr JsonFields::IntegerRange kHeads{1, 4096};
constexpr JsonFields::IntegerRange kHeadDim{2, 1024};
constexpr JsonFields::IntegerRange kPositions{1, 1 << 20};
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20;

std::int32_t narrow(std::int64_t value) {
  return static_cast<std::int32_t>(value);
}  // REQUIRES: range-checked

[[noreturn]] void unsupported(const JsonFields& fields, const char* key, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, fields.where() + ": \"" + key + "\": " + what, {}, key);
}

void require_text(const JsonFields& fields, const char* key, std::string_view wanted) {
  const auto value = fields.optional_string(key);
  if (value && *value != wanted) {
    unsupported(fields, key, "only \"" + std::string(wanted) + "\" is supported");
  }
}

// Refuses keys of other kinds of models, whatever their name: quantized weights, mixtures of experts.
void refuse_other_models(const JsonFields& fields) {
  for (const char* key : {"quantization_config", "num_experts", "num_local_experts", "n_routed_experts"}) {
    if (fields.find(key) != nullptr) unsupported(fields, key, "is not supported");
  }
}

Dtype read_dtype(const JsonFields& fields) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto name = fields.optional_string(key);
    if (!name) continue;
    if (*name == "bfloat16") return Dtype::kBFloat16;
    if (*name == "float32") return Dtype::kFloat32;
    if (*name == "float16") return Dtype::kFloat16;
    unsupported(fields, key, "only bfloat16, float32 and float16 are supported");
  }
  return Dtype::kFloat32;  // transformers' default
}

// Some real folders have ids outside the vocabulary (a pad id of −1 or too large). Such an id never occurs.
std::int32_t read_id(const JsonFields& fields, const char* key) {
  return narrow(fields.optional_integer(key, {-1, 1 << 24}).value_or(-1));
}

// An end token outside the vocabulary is an error here; otherwise every request would be refused.
void add_eos_ids(const JsonFields& fields, std::int32_t vocab_size, std::vector<std::int32_t>& ids) {
  const json* value = fields.find("eos_token_id");
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > 64) fields.refuse("eos_token_id", "has more than 64 entries");
  for (const json& element : list) {
    const auto id = exact_integer(element, {0, kVocabulary.high});
    if (!id) fields.refuse("eos_token_id", "must be a token id or a list of them");
    if (*id >= vocab_size) {
      fields.refuse("eos_token_id", "holds " + std::to_string(*id) + ", outside the vocabulary of " +
                                        std::to_string(vocab_size) + " tokens (vocab_size in config.json)");
    }
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(narrow(*id));
  }
}

void read_shape(const JsonFields& fields, ModelConfig& config) {
  config.vocab_size = narrow(fields.integer("vocab_size", kVocabulary));
  config.hidden_size = narrow(fields.integer("hidden_size", kWidth));
  config.intermediate_size = narrow(fields.integer("intermediate_size", kWidth));
  config.n_layers = narrow(fields.integer("num_hidden_layers", kLayers));
  config.n_heads = narrow(fields.integer("num_attention_heads", kHeads));
  const auto kv_heads = fields.optional_integer("num_key_value_heads", kHeads);
  config.n_kv_heads = kv_heads ? narrow(*kv_heads) : default_kv_heads(fields, config);
  if (config.n_heads % config.n_kv_heads != 0) {
    fields.refuse("num_key_value_heads", "must divide num_attention_heads");
  }
  const auto head_dim = fields.optional_integer("head_dim", kHeadDim);
  config.head_dim = head_dim ? narrow(*head_dim) : default_head_dim(fields, config);
  if (config.head_dim % 2 != 0 || config.head_dim > kHeadDim.high)
    fields.refuse("head_dim", "must be even and at most 1024");
  if (std::int64_t{config.head_dim} * config.n_heads > kWidth.high)
    fields.refuse("head_dim", "is too large for so many heads");
  config.max_positions = narrow(fields.integer("max_position_embeddings", kPositions));
}

// The context that a model reaches. With yarn, `stated` may be the original one: Qwen2.5's users add rope_scaling to
// the file and leave max_position_embeddings.
std::int32_t reached_positions(std::int32_t stated, const RopeScaling& scaling) {
  if (scaling.type != RopeType::kYarn) return stated;
  const double scaled = std::floor(scaling.factor * scaling.original_max_positions);
  return std::max(stated, static_cast<std::int32_t>(std::min(scaled, static_cast<double>(kPositions.high))));
}

std::optional<std::string> read_json_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_file(path, kMaxConfigBytes);
}

// `org/name` as on a model hub: two plain components, and neither is a local path such as `..`.
bool looks_like_hub_name(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  return text.find('/', slash + 1) == std::string::npos && text.front() != '.' && text.front() != '~';
}

void require_folder(const std::filesystem::path& folder) {
  if (std::filesystem::is_directory(folder)) return;
  throw Error(ErrorCode::kNotFound, "there is no folder " + folder.string(),
              looks_like_hub_name(folder.string())
                  ? "no such folder; download it first, then pass the folder"
                  : "pass a Hugging Face folder: config.json, model.safetensors, tokenizer.json");
}

const char* dtype_text(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kBFloat16:
      return "bfloat16";
    case Dtype::kFloat16:
      return "float16";
  }
  return "";
}

json id_or_null(std::int32_t id) {
  return id < 0 ? json(nullptr) : json(id);
}

}  // namespace

bool ModelConfig::same_shape(const ModelConfig& other) const {
  const auto shape = [](const ModelConfig& c) {
    return std::array<std::int32_t, 8>{c.vocab_size, c.hidden_size, c.intermediate_size, c.n_layers,
                                       c.n_heads,    c.n_kv_heads,  c.head_dim,          c.max_positions};
  };
  const auto features = [](const ModelConfig& c) {
    return std::array<bool, 4>{c.qkv_bias, c.attention_out_bias, c.mlp_bias, c.qk_norm};
  };
  return architecture == other.architecture && shape(*this) == shape(other) && rms_norm_eps == other.rms_norm_eps &&
         rope_theta == other.rope_theta && rope_scaling == other.rope_scaling && features(*this) == features(other) &&
         windows == other.windows;
}

std::int64_t ModelConfig::parameters() const {
  const std::int64_t hidden = hidden_size, ffn = intermediate_size, queries = std::int64_t{n_heads} * head_dim,
                     keys = std::int64_t{n_kv_heads} * head_dim;
  std::int64_t layer = hidden * (2 * queries + 2 * keys) + 3 * hidden * ffn + 2 * hidden;
  if (qkv_bias) layer += queries + 2 * keys;
  if (attention_out_bias) layer += hidden;
  if (mlp_bias) layer += 2 * ffn + hidden;
  if (qk_norm) layer += 2 * head_dim;
  const std::int64_t vocabulary = std::int64_t{vocab_size} * hidden;
  return n_layers * layer + hidden + vocabulary * (tied_embeddings ? 1 : 2);
}

std::string ModelConfig::beyond_plain_llama() const {
  if (qk_norm) return "architectures";  // no other key of config.json states it
  if (qkv_bias || attention_out_bias) return attention_out_bias ? "attention_bias" : "architectures";
  if (mlp_bias) return "mlp_bias";
  if (!windows.empty()) return "sliding_window";
  return rope_scaling.type == RopeType::kDefault ? "" : "rope_scaling";
}

ModelConfig parse_model_config(const std::string& config_json, const std::string& generation_config_json,
                               const std::string& where) {
  const std::string config_name = where + "/config.json", generation_name = where + "/generation_config.json";
  const json document = parse_strict_json(config_json, config_name);
  const JsonFields fields(document, config_name);
  ModelConfig config;
  config.architecture = read_architecture(fields);
  require_text(fields, "hidden_act", "silu");
  refuse_other_models(fields);
  read_shape(fields, config);
  read_layer_features(fields, config);
  config.rms_norm_eps = fields.optional_number("rms_norm_eps", {1e-12, 1.0}).value_or(1e-6);
  const RopeSettings rope = read_rope_settings(fields, config.max_positions);
  config.rope_theta = rope.theta;
  config.rope_scaling = rope.scaling;
  config.max_positions = reached_positions(config.max_positions, rope.scaling);
  config.tied_embeddings = fields.optional_boolean("tie_word_embeddings").value_or(false);
  config.stored_dtype = read_dtype(fields);
  config.bos_id = read_id(fields, "bos_token_id");
  config.pad_id = read_id(fields, "pad_token_id");
  add_eos_ids(fields, config.vocab_size, config.eos_ids);
  if (!generation_config_json.empty()) {
    const json generation = parse_strict_json(generation_config_json, generation_name);
    add_eos_ids(JsonFields(generation, generation_name), config.vocab_size, config.eos_ids);
  }
  return config;
}

ModelConfig load_model_config(const std::filesystem::path& folder) {
  require_folder(folder);
  const auto config_json = read_json_file(folder / "config.json");
  if (!config_json) {
    throw Error(ErrorCode::kNotFound, "there is no config.json in " + folder.string(),
                "pass a Hugging Face folder: config.json, model.safetensors, tokenizer.json");
  }
  const auto generation = read_json_file(folder / "generation_config.json");
  if (generation && generation->empty()) {
    throw Error(ErrorCode::kInvalidArgument, (folder / "generation_config.json").string() + " is empty",
                "copy it again from the model, or remove it");
  }
  return parse_model_config(*config_json, generation.value_or(""), folder.string());
}

std::string to_config_json(const ModelConfig& config) {
  const char* dtype = dtype_text(config.stored_dtype);
  const json eos = config.eos_ids.empty()       ? json(nullptr)
                   : config.eos_ids.size() == 1 ? json(config.eos_ids.front())
                                                : json(config.eos_ids);
  const json rope = rope_parameters_json({config.rope_theta, config.rope_scaling});
  json document = {
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.n_layers},
      {"num_attention_heads", config.n_heads},
      {"num_key_value_heads", config.n_kv_heads},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", config.max_positions},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_theta", config.rope_theta},
      {"rope_parameters", rope},
      {"tie_word_embeddings", config.tied_embeddings},
      {"dtype", dtype},
      {"torch_dtype", dtype},
      {"bos_token_id", id_or_null(config.bos_id)},
      {"eos_token_id", eos},
      {"pad_token_id", id_or_null(config.pad_id)},
      {"use_cache", true},
  };
  document.update(layer_feature_json(config));
  if (config.rope_scaling.type != RopeType::kDefault) document["rope_scaling"] = rope;
  return document.dump(2) + "\n";
}

}  // namespace slip
