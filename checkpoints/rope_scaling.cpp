// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr JsonFields::NumberRange kTheta{1.0, 1e12};
constexpr JsonFields::NumberRange kFactor{1.0, 1e6};
constexpr JsonFields::NumberRange kPositive{1e-6, 1e6};
constexpr JsonFields::IntegerRange kPositions{1, 1 << 20};
constexpr const char* kOriginalPositions = "original_max_position_embeddings";

struct TypeName {
  const char* name;
  RopeType type;
};
constexpr TypeName kTypes[] = {{"default", RopeType::kDefault},
                               {"linear", RopeType::kLinear},
                               {"llama3", RopeType::kLlama3},
                               {"yarn", RopeType::kYarn}};

// Reads one of the two objects; errors carry its key.
class RopeReader {
 public:
  RopeReader(const JsonFields& outer, const char* key, const json& value, std::int32_t max_positions)
      : key_(key),
        object_(value),
        outer_(outer),
        fields_(value, outer.where() + ": " + key),
        max_positions_(max_positions) {}

  RopeScaling read() const {
    RopeScaling scaling;
    scaling.type = read_type();
    switch (scaling.type) {
      case RopeType::kDefault:
        only({});
        break;
      case RopeType::kLinear:
        only({"factor"});
        scaling.factor = required("factor", kFactor);
        break;
      case RopeType::kLlama3:
        read_llama3(scaling);
        break;
      case RopeType::kYarn:
        read_yarn(scaling);
        break;
    }
    return scaling;
  }

  std::optional<double> theta() const { return fields_.optional_number("rope_theta", kTheta); }

 private:
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(ErrorCode::kUnsupported, fields_.where() + ": " + what, {}, key_);
  }
  // Keys inside the object differ by type, so errors name the object's own key.
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::kInvalidArgument, fields_.where() + ": " + what, {}, key_);
  }

  RopeType read_type() const {
    std::optional<std::string> name = fields_.optional_string("rope_type");
    const auto older = fields_.optional_string("type");
    if (name && older && *name != *older) refuse("\"type\" and \"rope_type\" differ");
    if (!name) name = older;
    if (!name) return RopeType::kDefault;
    for (const TypeName& known : kTypes) {
      if (*name == known.name) return known.type;
    }
    unsupported("only the rope types default, linear, llama3 and yarn are supported");
  }

  void only(std::initializer_list<std::string_view> keys) const {
    for (const auto& [name, unused] : object_.items()) {
      if (name == "rope_theta" || name == "rope_type" || name == "type") continue;
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      const auto fraction = name == "partial_rotary_factor" ? fields_.optional_number(name.c_str(), {0, 1}) : 0.0;
      if (fraction != 1.0) unsupported("it says more than its rope type has a use for");
    }
  }

  double required(const char* name, JsonFields::NumberRange range) const {
    const auto value = fields_.optional_number(name, range);
    if (!value) refuse("\"" + std::string(name) + "\" is missing");
    return *value;
  }

  // Some files have this key beside the object. transformers 5 reads it there first; transformers 4 ignores it.
  std::int32_t original_positions() const {
    const auto beside = outer_.optional_integer(kOriginalPositions, kPositions);
    const auto within = fields_.optional_integer(kOriginalPositions, kPositions);
    if (beside && within && *beside != *within) {
      outer_.refuse(kOriginalPositions, std::string("differs from the one in ") + key_);
    }
    return static_cast<std::int32_t>(beside ? *beside : within.value_or(max_positions_));
  }

  void read_llama3(RopeScaling& scaling) const {
    only({"factor", "low_freq_factor", "high_freq_factor", kOriginalPositions});
    scaling.factor = required("factor", kFactor);
    scaling.low_freq_factor = required("low_freq_factor", kPositive);
    scaling.high_freq_factor = required("high_freq_factor", kPositive);
    if (scaling.low_freq_factor >= scaling.high_freq_factor) refuse("high_freq_factor must be above low_freq_factor");
    scaling.original_max_positions = original_positions();
  }

  void read_yarn(RopeScaling& scaling) const {
    only({"factor", kOriginalPositions, "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
          "truncate"});
    scaling.original_max_positions = original_positions();
    const auto factor = fields_.optional_number("factor", kFactor);
    scaling.factor = factor.value_or(static_cast<double>(max_positions_) / scaling.original_max_positions);
    if (scaling.factor < 1) refuse("\"factor\" is missing");
    scaling.beta_fast = fields_.optional_number("beta_fast", kPositive).value_or(32);
    scaling.beta_slow = fields_.optional_number("beta_slow", kPositive).value_or(1);
    if (scaling.beta_fast < scaling.beta_slow) refuse("beta_fast must not be below beta_slow");
    scaling.truncate = fields_.optional_boolean("truncate").value_or(true);
    scaling.attention_factor = read_attention_factor(scaling.factor);
  }

  // Yarn's attention factor, √(1/t) = 0.1 ln(factor) + 1 (Peng et al., "YaRN", 2023, equation 22). A model may scale
  // the logarithm (DeepSeek's mscale and mscale_all_dim; transformers uses the quotient) or give the value itself.
  double read_attention_factor(double factor) const {
    const auto given = fields_.optional_number("attention_factor", {1e-6, 1e6});
    if (given) return *given;
    const auto grown = [factor](double weight) { return 0.1 * weight * std::log(factor) + 1.0; };
    const double of_sum = fields_.optional_number("mscale", {0, 1e6}).value_or(0);
    const double of_all = fields_.optional_number("mscale_all_dim", {0, 1e6}).value_or(0);
    return of_sum != 0 && of_all != 0 ? grown(of_sum) / grown(of_all) : grown(1);
  }

  const char* key_;
  const json& object_;
  const JsonFields& outer_;
  const JsonFields fields_;
  std::int32_t max_positions_;
};

void check_rotary_fraction(const JsonFields& fields) {
  const auto fraction = fields.optional_number("partial_rotary_factor", {0, 1});
  if (!fraction || *fraction == 1.0) return;
  throw Error(ErrorCode::kUnsupported, fields.where() + ": \"partial_rotary_factor\": only 1 is supported", {},
              "partial_rotary_factor");
}

}  // namespace

RopeSettings read_rope_settings(const JsonFields& fields, std::int32_t max_positions) {
  check_rotary_fraction(fields);
  RopeSettings settings;
  std::optional<double> theta = fields.optional_number("rope_theta", kTheta);
  std::optional<RopeScaling> scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = fields.find(key);
    if (value == nullptr) continue;
    const RopeReader rope(fields, key, *value, max_positions);
    const RopeScaling here = rope.read();
    if (scaling && *scaling != here) fields.refuse(key, "differs from rope_scaling");
    scaling = here;
    const auto nested = rope.theta();
    if (nested && theta && *nested != *theta)
      fields.refuse("rope_theta", std::string("differs from the one in ") + key);
    if (nested) theta = nested;
  }
  settings.theta = theta.value_or(settings.theta);
  settings.scaling = scaling.value_or(settings.scaling);
  if (settings.scaling.type == RopeType::kYarn && settings.theta <= 1) {
    fields.refuse("rope_theta", "must be above 1 with yarn, which takes its logarithm");
  }
  return settings;
}

json rope_parameters_json(const RopeSettings& settings) {
  const RopeScaling& scaling = settings.scaling;
  json object = {{"rope_theta", settings.theta}};
  for (const TypeName& known : kTypes) {
    if (known.type == scaling.type) object["rope_type"] = known.name;
  }
  if (scaling.type == RopeType::kDefault) return object;
  object["factor"] = scaling.factor;
  if (scaling.type == RopeType::kLinear) return object;
  object[kOriginalPositions] = scaling.original_max_positions;
  if (scaling.type == RopeType::kLlama3) {
    object["low_freq_factor"] = scaling.low_freq_factor;
    object["high_freq_factor"] = scaling.high_freq_factor;
    return object;
  }
  object["beta_fast"] = scaling.beta_fast;
  object["beta_slow"] = scaling.beta_slow;
  object["truncate"] = scaling.truncate;
  object["attention_factor"] = scaling.attention_factor;
  return object;
}

}  // namespace slip
