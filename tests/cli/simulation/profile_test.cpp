// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::shared_ptr<const ModelWeights> tiny_model(std::int32_t max_positions) {
  const slip::testing::TemporaryFolder folder;
  slip::testing::TinyLlama model;
  model.config.max_positions = max_positions;
  model.write(folder.path());
  return ModelWeights::load(folder.path(), Dtype::kFloat32);
}

Profile some_profile() {
  PassCosts::Terms terms;
  terms.row_us = {{1, 10}, {8, 12}};
  Profile profile{"a machine", {"target", PassCosts(terms), ProfileError{9, 0.01, 0.05}}, std::nullopt, {3, 2, 1}};
  profile.draft = ModelProfile{"draft", PassCosts(terms), std::nullopt};
  return profile;
}

class ProfileFile : public ::testing::Test {
 protected:
  std::string refusal_of(const std::string& content) const {
    try {
      read_profile(folder_.write("p.json", content));
      return "none";
    } catch (const Error& error) {
      return error.message();
    }
  }
  slip::testing::TemporaryFolder folder_;
};

TEST_F(ProfileFile, IsReadAsItWasWritten) {
  const Profile read = read_profile(folder_.write("p.json", to_text(some_profile())));
  EXPECT_EQ(to_text(read), to_text(some_profile()));
  EXPECT_EQ(read.other.row_us, 2);
  EXPECT_EQ(read.target.error->passes, 9);
  EXPECT_FALSE(read.draft->error);
}

TEST_F(ProfileFile, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal_of("{}"), HasSubstr("p.json is no profile"));
  EXPECT_THAT(refusal_of("rubbish"), HasSubstr("p.json: not valid JSON"));
  EXPECT_THAT(refusal_of(R"({"target":{},"target":{}})"), HasSubstr("p.json: the JSON has a key twice"));
  const auto refusal = [&](const char* pointer, const json& value) {
    json profile = json::parse(to_text(some_profile()));
    profile[json::json_pointer(pointer)] = value;
    return refusal_of(profile.dump());
  };
  EXPECT_EQ(refusal("/machine", 7), "none") << "only for people";
  EXPECT_THAT(refusal("/slipstream_profile", 2), HasSubstr("has format 2"));
  EXPECT_THAT(refusal("/target", 7), HasSubstr("target: costs is missing"));
  EXPECT_THAT(refusal("/draft/costs", json::object()), HasSubstr("draft: row_us is missing"));
  // Times without a bound made a clock that ran backwards, and one that never ended.
  for (const json& value : {json(-1), json(1e308), json(3.7e9), json("1")}) {
    EXPECT_THAT(refusal("/step_us", value), HasSubstr("step_us"));
    EXPECT_THAT(refusal("/request_us", value), HasSubstr("request_us"));
    EXPECT_THAT(refusal("/target/costs/sequence_us", value), HasSubstr("sequence_us"));
    EXPECT_THAT(refusal("/target/costs/row_context_us", value), HasSubstr("row_context_us"));
  }
  EXPECT_THAT(refusal("/target/held_out", "x"), HasSubstr("target: passes"));
  EXPECT_THROW(read_profile(folder_.path() / "absent.json"), Error);
}

// What a term says of a model so small is chance; that it is a time and that the rest was measured too is not.
TEST(MeasureModel, MakesCostsAndTheirErrorFromPasses) {
  kernels::ThreadPool pool(1);
  const auto weights = tiny_model(600);
  int lines = 0;
  const ModelProfile model = measure_model("tiny", weights, pool, [&](const std::string&) { ++lines; });
  EXPECT_EQ(model.model, "tiny");
  EXPECT_GT(model.costs.us(pass_shape(1, 256, 0)), model.costs.us(pass_shape(1, 1, 0)));
  EXPECT_EQ(model.error->passes, 9);
  EXPECT_LE(model.error->median, model.error->worst);
  EXPECT_GT(lines, 3);
  const OtherCosts other = measure_other_costs(weights, pool, [](const std::string&) {});
  EXPECT_GT(other.step_us + other.row_us, 0);
  EXPECT_GE(other.row_us, 0);
  EXPECT_EQ(other.request_us, 0);
}

TEST(MeasureModel, AModelWithTooFewPositionsIsRefusedByName) {
  kernels::ThreadPool pool(1);
  try {
    measure_model("tiny", tiny_model(128), pool, [](const std::string&) {});
    FAIL() << "it was measured";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("tiny has 128 positions"));
  }
}

}  // namespace
}  // namespace slip
