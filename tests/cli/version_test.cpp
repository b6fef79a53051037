// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/checkpoints/tiny_llama.h"

namespace slip::cli {
namespace {

TEST(VersionTest, NamesWhatABugReportNeeds) {
  const std::string text = version_text();
  EXPECT_TRUE(text.starts_with("slipstream 0."));
  for (const char* line : {"\ncommit: ", "\ncompiler: ", "\nLibTorch: 2.",
                           "\nCUDA: ", "\nCUDA device: ", "\nCPU features: ", "\nmatrix instructions: "}) {
    const std::size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << line;
    EXPECT_GT(text.find_first_of('\n', at + 1), at + std::string(line).size()) << line << "says nothing";
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
}

TEST(VersionTest, JsonSaysTheSame) {
  const auto facts = nlohmann::json::parse(version_json());
  const std::string text = version_text();
  for (const char* key : {"version", "commit", "compiler", "libtorch", "matrix_instructions"}) {
    EXPECT_NE(text.find(facts.at(key).get<std::string>()), std::string::npos) << key;
  }
  EXPECT_TRUE(facts.at("cuda").is_boolean());
  EXPECT_TRUE(facts.at("cpu_features").is_array());
}

TEST(VersionTest, TheProcessorHasANameWithoutSpacesAround) {
  const std::string name = processor_name();
  ASSERT_FALSE(name.empty());
  EXPECT_NE(name.front(), ' ');
  EXPECT_NE(name.back(), ' ');
}

TEST(VersionTest, TheSystemFingerprintIsShortAndTheTargetsOwn) {
  const slip::testing::TemporaryFolder folder;
  const auto fingerprint_of = [&](const char* name, bool tied, Dtype dtype) {
    const auto target = folder.path() / name;
    slip::testing::TinyLlama(tied).write(target);
    std::ofstream(target / "tokenizer.json") << "{}";
    return system_fingerprint(target, dtype);
  };
  const std::string one = fingerprint_of("one", false, Dtype::kBFloat16);
  EXPECT_EQ(one.size(), 19U);
  EXPECT_TRUE(one.starts_with("fp_"));
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef", 3), std::string::npos);
  EXPECT_EQ(fingerprint_of("same", false, Dtype::kBFloat16), one) << "whatever its folder is called";
  EXPECT_NE(fingerprint_of("other", true, Dtype::kBFloat16), one);
  EXPECT_NE(fingerprint_of("other", false, Dtype::kFloat32), one);
}

}  // namespace
}  // namespace slip::cli
