// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/cli/command_output.h"

namespace slip::cli {
namespace {

const std::string kTarget = std::string(SLIPSTREAM_SOURCE_DIR) + "/checkpoints/demo/target";

// What `slipstream generate` prints for a sampled answer with a seed.
std::string generated(const std::string& more) {
  std::vector<std::string> arguments = {"generate", "--target",      kTarget, "--prompt", "Mira has", "--max-tokens",
                                        "8",        "--temperature", "1",     "--seed",   "3"};
  std::istringstream words(more);
  for (std::string word; words >> word;) arguments.push_back(word);
  return command_output(std::move(arguments));
}

TEST(Generate, TopKOfMinusOneOrNoneIsOff) {
  const std::string all = generated("");
  EXPECT_NE(all, "");
  EXPECT_EQ(generated("--top-k -1"), all);
  EXPECT_EQ(generated("--top-k 0"), all);
  EXPECT_NE(generated("--top-k 1"), all) << "or the test says nothing";
  EXPECT_THROW(generated("--top-k -2"), CLI::ValidationError);
}

// What --json prints was documented nowhere.
TEST(Generate, EveryFieldOfJsonIsDocumented) {
  const std::string page = read_file(std::string(SLIPSTREAM_SOURCE_DIR) + "/docs/api.md", 1U << 20);
  const auto from = page.find("`slipstream generate --json`");
  ASSERT_NE(from, std::string::npos);
  const std::string table = page.substr(from, page.find("\n## ", from) - from);
  const auto answer = nlohmann::json::parse(generated("--json --logprobs 1 --checksums"));
  EXPECT_GE(answer.size(), 17U);
  for (const auto& [field, value] : answer.items()) {
    EXPECT_NE(table.find("`" + field + "`"), std::string::npos) << field;
  }
  CLI::App app;
  add_generate(app);
  EXPECT_NE(app.get_subcommand("generate")->help().find("docs/api.md"), std::string::npos);
}

// It was refused, though the help's range has it and a request takes it.
TEST(Generate, TopPOfZeroIsGreedy) {
  const std::string greedy = generated("--top-k 1");
  EXPECT_NE(greedy, "");
  EXPECT_EQ(generated("--top-p 0"), greedy);
  EXPECT_EQ(generated("--top-p 0.0"), greedy);
  EXPECT_NE(generated("--top-p 1"), greedy) << "or the test says nothing";
}

TEST(Generate, APromptOfAFileThatIsNotAnsweredIsNamedByItsId) {
  const slip::testing::TemporaryFolder folder;
  const std::string too_long(60'000, 'x');
  const auto prompts = folder.write("prompts.jsonl", R"({"prompt":"Mira has","id":"a"})"
                                                     "\n"
                                                     R"({"prompt":")" +
                                                         too_long + R"(","id":"long one"})");
  try {
    command_output({"generate", "--target", kTarget, "--prompts", prompts.string(), "--max-tokens", "1", "--json"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(R"(1 of 2 prompts were not answered; the first, with id "long one": )"),
              std::string::npos)
        << error.message();
  }
}

// It started as many and hung.
TEST(Generate, MoreThreadsThanMakeSenseAreRefusedByName) {
  try {
    generated("--threads 100000");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "--threads");
  }
}

// The error named end_ids, which is neither an option nor a field of a request.
TEST(Generate, AStopTokenBeyondTheVocabularyIsRefusedByTheOptionsName) {
  for (const char* id : {"8192", "-1"}) {
    try {
      generated(std::string("--stop-token ") + id);
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.param(), "--stop-token") << error.message();
      EXPECT_NE(error.message().find(id), std::string::npos) << error.message();
    }
  }
  EXPECT_NE(generated("--stop-token 8191"), "");
}

// Bug: each of these was ignored without a word.
TEST(Generate, WhatOnlyJsonCanShowIsRefusedWithoutIt) {
  const auto refusal = [](const std::string& more) {
    try {
      generated(more);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message() + "; " + error.hint();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("--logprobs 2"), "--logprobs without --json, which alone prints them; add --json");
  EXPECT_EQ(refusal("--checksums"), "--checksums without --json, which alone prints them; add --json");
  EXPECT_NE(generated("--logprobs 2 --checksums --json").find("checksum"), std::string::npos);
  const std::string swaps = "--swap-draft " + kTarget + " --swap-every 4";
  EXPECT_EQ(refusal(swaps), "--swap-draft without --draft; add --draft DIR");
  EXPECT_EQ(refusal(swaps + " --draft " + kTarget + " --k 0"),
            "--swap-draft with --k 0, which opens no draft; raise --k, or leave it out");
}

}  // namespace
}  // namespace slip::cli
