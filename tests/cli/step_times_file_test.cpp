// SPDX-License-Identifier: Apache-2.0
#include "cli/step_times_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/file.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kMaxBytes = 1 << 20;

class StepTimesFileTest : public ::testing::Test {
 protected:
  StepTimesFileTest() { write_step_times(file_, {origin_, curves_}); }

  json content() const { return json::parse(read_file(file_, kMaxBytes)); }
  void put(const std::string& content) const { replace_file(file_, content, "test"); }
  // Whether an engine would begin with times, and what the log says of it.
  std::string log_of_loading(const StepTimesOrigin& origin, bool used) const {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(load_step_times(file_, origin).unleased.has_value(), used);
    return ::testing::internal::GetCapturedStderr();
  }
  void expect_refused(const std::string& name) const {
    EXPECT_THAT(log_of_loading(origin_, false), AllOf(HasSubstr("warning"), HasSubstr(file_.string() + ": "),
                                                      HasSubstr(name), HasSubstr("step times are measured anew")));
  }

  slip::testing::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "step_times.json";
  const StepTimesOrigin origin_ = {{"target", "one"}, {"number of threads", "4"}};
  const StepCurves curves_ = {
      StepCurveState{.level_us = 1'234.5, .prompt_row_us = 8, .drafting = {265, 85}, .ratios = {{1, 0.9}, {128, 60}}},
      StepCurveState{.level_us = 3'000, .prompt_row_us = 0, .drafting = {}, .ratios = {}}};
};

TEST_F(StepTimesFileTest, HoldsWhatWasMeasured) {
  const StepCurves read = load_step_times(file_, origin_);
  ASSERT_TRUE(read.unleased && read.leased);
  EXPECT_EQ(read.unleased->level_us, 1'234.5);
  EXPECT_EQ(read.unleased->prompt_row_us, 8);
  EXPECT_EQ(read.unleased->drafting.begin_us, 265);
  EXPECT_EQ(read.unleased->drafting.pass_us, 85);
  EXPECT_EQ(read.unleased->ratios, curves_.unleased->ratios);
  EXPECT_EQ(read.leased->level_us, 3'000);
  EXPECT_TRUE(read.leased->ratios.empty());
  write_step_times(file_, {origin_, {curves_.unleased, {}}});
  EXPECT_FALSE(load_step_times(file_, origin_).leased);
}

TEST_F(StepTimesFileTest, TimesOfAnotherOriginAreNotUsed) {
  EXPECT_THAT(log_of_loading(origin_, true), HasSubstr("of 2 row counts"));
  const auto with = [this](const char* name, const char* value) {
    StepTimesOrigin origin = origin_;
    origin[name] = value;
    return log_of_loading(origin, false);
  };
  EXPECT_THAT(with("target", "two"), AllOf(HasSubstr("info"), HasSubstr("measured with another target")));
  EXPECT_THAT(with("number of threads", "8"), HasSubstr("measured with another number of threads"));
  EXPECT_THAT(with("device", "H200"), HasSubstr("measured with another device"));
  // Bug: times of a device were used by a service without one.
  StepTimesOrigin less = origin_;
  less.erase("target");
  EXPECT_THAT(log_of_loading(less, false), HasSubstr("measured with another target"));
  std::filesystem::remove(file_);
  EXPECT_THAT(log_of_loading(origin_, false), IsEmpty()) << "a first start";
}

TEST_F(StepTimesFileTest, WhatIsNoSuchFileIsRefused) {
  const std::string whole = read_file(file_, kMaxBytes);
  for (const std::string& bad : {std::string(), whole.substr(0, whole.size() / 2), std::string("[]"), std::string("7"),
                                 std::string(200, '['), "\xFF" + whole}) {
    put(bad);
    expect_refused("");
  }
  put(std::string(kMaxBytes, ' '));
  EXPECT_THAT(log_of_loading(origin_, false), HasSubstr(file_.string()));
  for (const char* key : {"slipstream_step_times", "measured_with", "unleased"}) {
    json some = json::parse(whole);
    some.erase(key);
    put(some.dump());
    expect_refused(key);
  }
}

TEST_F(StepTimesFileTest, HostileValuesAreRefused) {
  const json whole = content();
  const auto refuses = [&](const char* place, const char* value) {
    json bad = whole;
    bad[json::json_pointer(place)] = json::parse(value);
    put(bad.dump());
    expect_refused(std::string(place).substr(std::string(place).rfind('/') + 1));
  };
  for (const char* value : {"0", "2", "\"1\"", "true"}) refuses("/slipstream_step_times", value);
  for (const char* value : {"7", "null", "{}"}) refuses("/measured_with/target", value);
  for (const char* value : {"0", "-1", "1e300", "null", "\"1\"", "true", "[]"}) {
    refuses("/unleased/level_us", value);
    refuses("/leased/level_us", value);
  }
  for (const char* key : {"/unleased/prompt_row_us", "/unleased/draft_begin_us", "/unleased/draft_pass_us"}) {
    for (const char* value : {"-1e-9", "1e300", "null", "\"1\""}) refuses(key, value);
  }
  for (const char* value : {"null", "{}", "7", "[7]", "[[1]]", "[[1, 1, 1]]", "[[0, 1]]", "[[-1, 1]]", "[[129, 1]]",
                            "[[4294967297, 1]]", "[[1.5, 1]]", "[[true, 1]]", "[[1, 0]]", "[[1, -1]]", "[[1, 1e300]]",
                            "[[1, 1e-300]]", "[[1, null]]", "[[2, 1], [1, 1]]", "[[1, 1], [1, 1]]"}) {
    refuses("/unleased/ratios", value);
  }
}

}  // namespace
}  // namespace slip::cli
