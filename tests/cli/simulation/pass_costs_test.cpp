// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/pass_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

PassCosts::Terms terms() {
  PassCosts::Terms terms;
  terms.row_us = {{1, 1000}, {8, 1000}, {16, 1800}};
  terms.more_row_us = 100;
  terms.logit_row_us = 7;
  terms.sequence_us = 5;
  terms.context_us = 0.5;
  terms.row_context_us = 0.01;
  return terms;
}

template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
    return "none";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(PassCosts, ATimeIsTheSumOfItsTerms) {
  const PassCosts costs(terms());
  EXPECT_NEAR(costs.us({1, 1, 1, 0, 0}), 1000, 1e-9);
  EXPECT_NEAR(costs.us({12, 1, 1, 0, 0}), 1400, 1e-9) << "between two row counts";
  EXPECT_NEAR(costs.us({20, 1, 1, 0, 0}), 1800 + 4 * 100, 1e-9) << "beyond the most";
  EXPECT_NEAR(costs.us({8, 4, 1, 0, 0}), 1000 + 3 * 7, 1e-9);
  EXPECT_NEAR(costs.us({8, 1, 3, 0, 0}), 1000 + 2 * 5, 1e-9);
  EXPECT_NEAR(costs.us(pass_shape(2, 4, 100)), 1000 + 7 * 7 + 5 + 0.5 * 200 + 0.01 * 800, 1e-9);
  EXPECT_NEAR(costs.us(pass_shape(1, 8, 0, /*all_logits=*/false)), 1000, 1e-9);
}

TEST(PassCosts, AreReadAsTheyWereWritten) {
  const PassCosts costs(terms());
  const PassCosts read = PassCosts::from_json(json::parse(costs.to_json().dump()), "file");
  EXPECT_EQ(read.terms().row_us, terms().row_us);
  EXPECT_EQ(read.us(pass_shape(3, 5, 77)), costs.us(pass_shape(3, 5, 77)));
}

TEST(PassCosts, WhatIsMissingOrNoTimeIsNamed) {
  PassCosts::Terms bad = terms();
  bad.sequence_us = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal_of([&] { PassCosts costs(bad); }), HasSubstr("sequence_us"));
  bad = terms();
  bad.row_us.erase(1);
  EXPECT_THAT(refusal_of([&] { PassCosts costs(bad); }), HasSubstr("one row"));
  const auto refusal = [](const std::string& key, const json& value) {
    json object = PassCosts(terms()).to_json();
    object[key] = value;
    return refusal_of([&] { PassCosts::from_json(object, "p.json: draft"); });
  };
  EXPECT_THAT(refusal("context_us", "x"), HasSubstr("p.json: draft: context_us"));
  EXPECT_THAT(refusal("context_us", -1), HasSubstr("p.json: draft: context_us"));
  EXPECT_THAT(refusal("row_us", 3), HasSubstr("row_us"));
  for (const char* pair : {"[0, 5]", "[1]", "[1.5, 5]", "[4294967297, 5]", "[1, null]", "[-1, 5]", "{}"}) {
    EXPECT_THAT(refusal("row_us", json::array({json::parse(pair)})), HasSubstr("no pair of rows and µs")) << pair;
  }
  EXPECT_THAT(refusal("row_us", json::parse("[[1, 0]]")), HasSubstr("is no time of 1 rows"));
  EXPECT_THAT(refusal_of([] { PassCosts::from_json(json::array(), "p"); }), HasSubstr("row_us is missing"));
}

// 8B parameters of 2 bytes at 4 TB/s; 256 rows of 16 GFLOP at 600 TFLOP/s take longer than that.
TEST(CalculatedCosts, AreThoseOfReadingThenThoseOfArithmetic) {
  const ModelConfig config{.vocab_size = 128'256,
                           .hidden_size = 4096,
                           .intermediate_size = 14'336,
                           .n_layers = 32,
                           .n_heads = 32,
                           .n_kv_heads = 8,
                           .head_dim = 128};
  const double embedding = 128'256.0 * 4096;
  const double layers = static_cast<double>(config.parameters()) - 2 * embedding;
  EXPECT_NEAR(layers, 6.98e9, 0.01e9) << "Llama 3.1 8B";
  const PassCosts costs = calculated_costs(config, {4e12, 600e12}, 2);
  EXPECT_NEAR(costs.us({1, 1, 1, 0, 0}), (layers + embedding) * 2 / 4e12 * 1e6, 1);
  EXPECT_NEAR(costs.us({64, 1, 1, 0, 0}), costs.us({1, 1, 1, 0, 0}), 1);
  EXPECT_NEAR(costs.us({2048, 1, 1, 0, 0}), 2048 * 2 * layers / 600e12 * 1e6, 30);
  const PassCosts slower = calculated_costs(config, {4e12, 600e12, 150}, 2);
  EXPECT_NEAR(slower.us({1, 1, 1, 0, 0}) - costs.us({1, 1, 1, 0, 0}), 150, 1e-6);
  EXPECT_NEAR(slower.us({2048, 1, 1, 0, 0}) - costs.us({2048, 1, 1, 0, 0}), 150, 1e-6);
  const double cached_bytes = 2.0 * 32 * 8 * 128 * 2;
  EXPECT_NEAR(costs.terms().context_us, cached_bytes / 4e12 * 1e6, 1e-9);
  EXPECT_NEAR(costs.terms().row_context_us, 4.0 * 32 * 32 * 128 / 600e12 * 1e6, 1e-12);
}

}  // namespace
}  // namespace slip
