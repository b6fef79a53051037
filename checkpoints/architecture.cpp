// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/architecture.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;

enum class Family { kLlama, kQwen2, kQwen3, kMistral };

struct Architecture {
  const char* name;
  const char* model_type;
  Family family;
};
constexpr Architecture kArchitectures[] = {{"LlamaForCausalLM", "llama", Family::kLlama},
                                           {"Qwen2ForCausalLM", "qwen2", Family::kQwen2},
                                           {"Qwen3ForCausalLM", "qwen3", Family::kQwen3},
                                           {"MistralForCausalLM", "mistral", Family::kMistral}};
constexpr std::int32_t kDefaultWindow = 4096;         // default of Mistral's and Qwen's configurations
constexpr std::int64_t kDefaultMaxWindowLayers = 28;  // default of Qwen's configurations
constexpr std::int32_t kQwen3HeadDim = 128;
constexpr JsonFields::IntegerRange kWindow{1, std::numeric_limits<std::int32_t>::max()};
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

[[noreturn]] void unsupported(const JsonFields& fields, const char* key, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, fields.where() + ": \"" + key + "\": " + what, {}, key);
}

const Architecture& architecture_of(const ModelConfig& config) {
  for (const Architecture& known : kArchitectures) {
    if (config.architecture == known.name) return known;
  }
  SLIP_CHECK(false, "a configuration of an architecture without a reader");
  return kArchitectures[0];
}

const Architecture& known_architecture(const JsonFields& fields, const char* key, const std::string& text) {
  for (const Architecture& known : kArchitectures) {
    if (text == known.name || text == known.model_type) return known;
  }
  std::string names;
  for (const Architecture& known : kArchitectures) names += (names.empty() ? "" : ", ") + std::string(known.name);
  unsupported(fields, key, "only " + names + " are supported");
}

bool flag(const JsonFields& fields, const char* key) {
  return fields.optional_boolean(key).value_or(false);
}

void require_false(const JsonFields& fields, const char* key) {
  if (flag(fields, key)) unsupported(fields, key, "true is not supported for this architecture");
}

// An absent key means the default; null means no window.
std::int32_t read_window(const JsonFields& fields) {
  const auto window = fields.optional_integer("sliding_window", kWindow);
  if (window) return static_cast<std::int32_t>(*window);
  return fields.has("sliding_window") ? 0 : kDefaultWindow;
}

// Which layers have a window by `layer_types`; nullopt without the key.
std::optional<std::vector<bool>> read_layer_types(const JsonFields& fields, std::int32_t n_layers) {
  const json* types = fields.find("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array()) fields.refuse("layer_types", "must be a list");
  if (types->size() != static_cast<std::size_t>(n_layers)) {
    fields.refuse("layer_types", "must have one entry a layer");
  }
  std::vector<bool> slides;
  for (const json& type : *types) {
    if (type != kFull && type != kSliding) {
      unsupported(fields, "layer_types", "only full_attention and sliding_attention are supported");
    }
    slides.push_back(type == kSliding);
  }
  return slides;
}

// Qwen: a window in the layers that layer_types names; without layer_types, in the layers from max_window_layers on.
void read_qwen_windows(const JsonFields& fields, ModelConfig& config) {
  const std::int32_t window = flag(fields, "use_sliding_window") ? read_window(fields) : 0;
  const auto first = fields.optional_integer("max_window_layers", {0, 1 << 20}).value_or(kDefaultMaxWindowLayers);
  const auto named = read_layer_types(fields, config.n_layers);
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    const bool slides = named ? (*named)[static_cast<std::size_t>(layer)] : window > 0 && layer >= first;
    if (slides && window == 0) fields.refuse("layer_types", "has sliding_attention, but there is no sliding_window");
    config.windows.push_back(slides ? window : 0);
  }
}

// Llama and Mistral have one kind of layer and ignore layer_types. A file with other values belongs to another model.
void set_one_window(const JsonFields& fields, ModelConfig& config, std::int32_t window) {
  const auto named = read_layer_types(fields, config.n_layers);
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    if (named && (*named)[static_cast<std::size_t>(layer)] != (window > 0)) {
      unsupported(fields, "layer_types", "this architecture's layers are all alike");
    }
    config.windows.push_back(window);
  }
}

json layer_types_json(const ModelConfig& config) {
  json types = json::array();
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer)
    types.push_back(config.window(layer) > 0 ? kSliding : kFull);
  return types;
}

void add_qwen_windows(const ModelConfig& config, json& document) {
  std::int32_t first = 0;
  while (first < config.n_layers && config.window(first) == 0) ++first;
  const bool any = first < config.n_layers;
  document["use_sliding_window"] = any;
  document["sliding_window"] = any ? json(config.window(first)) : json(nullptr);
  document["max_window_layers"] = first;
  document["layer_types"] = layer_types_json(config);
}

}  // namespace

std::string read_architecture(const JsonFields& fields) {
  const auto model_type = fields.optional_string("model_type");
  const json* list = fields.find("architectures");
  if (list == nullptr) {
    if (!model_type) fields.refuse("architectures", "is missing");
    return known_architecture(fields, "model_type", *model_type).name;
  }
  if (!list->is_array() || list->size() != 1 || !list->front().is_string()) {
    fields.refuse("architectures", "must be a list of one name");
  }
  const auto& known = known_architecture(fields, "architectures", list->front().get<std::string>());
  if (model_type && *model_type != known.model_type) {
    unsupported(fields, "model_type", "only \"" + std::string(known.model_type) + "\" goes with " + known.name);
  }
  return known.name;
}

std::int32_t default_head_dim(const JsonFields& fields, const ModelConfig& config) {
  if (architecture_of(config).family == Family::kQwen3) return kQwen3HeadDim;
  if (config.hidden_size % config.n_heads != 0) {
    fields.refuse("num_attention_heads", "must divide hidden_size when there is no head_dim");
  }
  return config.hidden_size / config.n_heads;
}

// Only Llama's default follows from the number of heads. The others' defaults are those of one model size.
std::int32_t default_kv_heads(const JsonFields& fields, const ModelConfig& config) {
  const bool is_llama = architecture_of(config).family == Family::kLlama;
  if (!is_llama && !fields.has("num_key_value_heads")) fields.refuse("num_key_value_heads", "is missing");
  return config.n_heads;
}

void read_layer_features(const JsonFields& fields, ModelConfig& config) {
  const Family family = architecture_of(config).family;
  config.windows.clear();
  if (family == Family::kLlama) {
    config.mlp_bias = flag(fields, "mlp_bias");
    if (fields.find("sliding_window") != nullptr) unsupported(fields, "sliding_window", "is not part of a Llama");
  } else {
    require_false(fields, "mlp_bias");
  }
  if (family == Family::kMistral) require_false(fields, "attention_bias");
  if (family == Family::kLlama || family == Family::kQwen3) {
    config.qkv_bias = config.attention_out_bias = flag(fields, "attention_bias");
  }
  if (family == Family::kQwen2) config.qkv_bias = true;
  config.qk_norm = family == Family::kQwen3;
  if (family == Family::kQwen2 || family == Family::kQwen3) {
    read_qwen_windows(fields, config);
  } else {
    set_one_window(fields, config, family == Family::kMistral ? read_window(fields) : 0);
  }
  if (std::ranges::all_of(config.windows, [](std::int32_t window) { return window == 0; })) config.windows.clear();
}

json layer_feature_json(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config);
  json document = {{"architectures", {architecture.name}}, {"model_type", architecture.model_type}};
  switch (architecture.family) {
    case Family::kLlama:
      document["attention_bias"] = config.qkv_bias;
      document["mlp_bias"] = config.mlp_bias;
      break;
    case Family::kQwen3:
      document["attention_bias"] = config.qkv_bias;
      add_qwen_windows(config, document);
      break;
    case Family::kQwen2:
      add_qwen_windows(config, document);
      break;
    case Family::kMistral:
      document["sliding_window"] = config.window(0) > 0 ? json(config.window(0)) : json(nullptr);
      break;
  }
  return document;
}

}  // namespace slip
