// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/rope_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;

RopeSettings read(const json& config) {
  return read_rope_settings(JsonFields(config, "m"), 4096);
}
RopeScaling scaling(const json& rope) {
  return read({{"rope_parameters", rope}}).scaling;
}

std::string refusal(const json& config) {
  try {
    read(config);
    return "accepted";
  } catch (const Error& error) {
    return (error.code() == ErrorCode::kUnsupported ? "unsupported " : "invalid ") + error.param();
  }
}

const json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}};
const json kYarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};

TEST(RopeScaling, ReadsTheKeysOfBothTransformers) {
  const json old = {{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}};
  const json recent = {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}}}};
  for (const json& config : {old, recent}) {
    EXPECT_EQ(read(config).theta, 5e5);
    EXPECT_EQ(read(config).scaling.type, RopeType::kLinear);
    EXPECT_EQ(read(config).scaling.factor, 2.0);
  }
  EXPECT_EQ(read(json::object()).theta, 10000.0);
  EXPECT_EQ(read({{"rope_scaling", nullptr}}).scaling, RopeScaling{});
  EXPECT_EQ(read({{"rope_scaling", {{"type", "default"}}}}).scaling, RopeScaling{});
}

TEST(RopeScaling, ReadsLlama3AndYarn) {
  const RopeScaling llama3 = scaling(kLlama3);
  EXPECT_EQ(llama3.type, RopeType::kLlama3);
  EXPECT_EQ(llama3.original_max_positions, 8192);
  EXPECT_EQ(llama3.low_freq_factor, 1.0);
  EXPECT_EQ(llama3.high_freq_factor, 4.0);
  EXPECT_EQ(llama3.attention_factor, 1.0);
  json without = kLlama3;
  without.erase("original_max_position_embeddings");
  EXPECT_EQ(scaling(without).original_max_positions, 4096);

  EXPECT_DOUBLE_EQ(scaling(kYarn).attention_factor, 0.1 * std::log(4.0) + 1);
  json weighed = kYarn;
  weighed.update({{"mscale", 0.7}, {"mscale_all_dim", 1.0}});
  EXPECT_DOUBLE_EQ(scaling(weighed).attention_factor, (0.07 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1));
  weighed["attention_factor"] = 1.5;
  EXPECT_EQ(scaling(weighed).attention_factor, 1.5);
  json implied = kYarn;
  implied["factor"] = nullptr;
  EXPECT_EQ(scaling(implied).factor, 4.0);  // 4096 / 1024
}

// transformers 5 prefers the one beside the object; a file that says both must say the same.
TEST(RopeScaling, TheOriginalContextMayStandBesideTheObject) {
  json without = kYarn;
  without.erase("original_max_position_embeddings");
  const auto beside = [](const json& rope, const json& positions) {
    return json{{"rope_scaling", rope}, {"original_max_position_embeddings", positions}};
  };
  EXPECT_EQ(read(beside(without, 2048)).scaling.original_max_positions, 2048);
  EXPECT_EQ(read(beside(kYarn, 1024)).scaling.original_max_positions, 1024);
  EXPECT_EQ(refusal(beside(kYarn, 2048)), "invalid original_max_position_embeddings");
  EXPECT_EQ(refusal(beside(without, 0)), "invalid original_max_position_embeddings");
}

TEST(RopeScaling, WrittenParametersReadBackAlike) {
  for (const json& rope :
       std::vector<json>{{{"rope_type", "default"}}, {{"rope_type", "linear"}, {"factor", 3.0}}, kLlama3, kYarn}) {
    const RopeSettings settings{12345.0, scaling(rope)};
    const RopeSettings again = read({{"rope_parameters", rope_parameters_json(settings)}});
    EXPECT_EQ(again.theta, settings.theta);
    EXPECT_EQ(again.scaling, settings.scaling);
  }
}

TEST(RopeScaling, OtherTypesAndUnknownKeysAreUnsupportedByName) {
  for (const char* type : {"dynamic", "longrope", "proportional", "su", ""}) {
    EXPECT_EQ(refusal({{"rope_scaling", {{"type", type}, {"factor", 2.0}}}}), "unsupported rope_scaling") << type;
    EXPECT_EQ(refusal({{"rope_parameters", {{"rope_type", type}}}}), "unsupported rope_parameters") << type;
  }
  EXPECT_EQ(refusal({{"rope_scaling", {{"type", "default"}, {"factor", 2.0}}}}), "unsupported rope_scaling");
  EXPECT_EQ(refusal({{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}}),
            "unsupported rope_parameters");
  EXPECT_EQ(refusal({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}), "unsupported rope_parameters");
}

TEST(RopeScaling, WhatContradictsItselfIsRefused) {
  const auto changed = [](json rope, const char* key, const json& value) {
    rope[key] = value;
    return json{{"rope_parameters", rope}};
  };
  EXPECT_EQ(refusal({{"rope_scaling", {{"type", "linear"}}}}), "invalid rope_scaling");
  EXPECT_EQ(refusal({{"rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2.0}}}}),
            "invalid rope_scaling");
  EXPECT_EQ(refusal(changed(kLlama3, "high_freq_factor", 1.0)), "invalid rope_parameters");
  EXPECT_EQ(refusal(changed(kLlama3, "low_freq_factor", nullptr)), "invalid rope_parameters");
  EXPECT_EQ(refusal(changed(kYarn, "beta_fast", 0.5)), "invalid rope_parameters");
  EXPECT_EQ(refusal(changed(kYarn, "rope_theta", 1.0)), "invalid rope_theta");
  EXPECT_EQ(refusal(changed(kYarn, "factor", 0.5)), "invalid factor");
  EXPECT_EQ(refusal(changed(kYarn, "factor", "4")), "invalid factor");
  EXPECT_EQ(refusal(changed(kYarn, "original_max_position_embeddings", 0)), "invalid original_max_position_embeddings");
  EXPECT_EQ(refusal(changed(kYarn, "attention_factor", -1)), "invalid attention_factor");
  EXPECT_EQ(refusal({{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 2e4}, {"rope_type", "default"}}}}),
            "invalid rope_theta");
  EXPECT_EQ(refusal({{"rope_scaling", kYarn}, {"rope_parameters", kLlama3}}), "invalid rope_parameters");
  EXPECT_EQ(refusal({{"rope_scaling", kYarn}, {"rope_parameters", kYarn}}), "accepted");
}

}  // namespace
}  // namespace slip
