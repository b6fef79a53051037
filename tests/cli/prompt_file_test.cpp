// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

std::filesystem::path file_of(const std::string& content) {
  static const testing::TemporaryFolder folder;  // of this process: tests run side by side
  return folder.write("prompts.jsonl", content);
}

TEST(PromptFile, ReadsRowsNumbersThoseWithoutIdAndIgnoresOtherKeys) {
  const auto rows = read_prompt_file(file_of(
      "{\"id\":\"a\",\"prompt\":\"one\",\"topic\":[1]}\n\n{\"prompt\":\"two\"}\r\n{\"id\":7,\"prompt\":\"three\"}"));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].id, "a");
  EXPECT_EQ(rows[1].id, 2);
  EXPECT_EQ(rows[1].prompt, "two");
  EXPECT_EQ(rows[2].id, 7);
}

TEST(PromptFile, RefusesABadRowByItsLine) {
  const std::vector<std::string> bad_rows{"{",
                                          "[]",
                                          "{\"id\":1}",
                                          "{\"prompt\":5}",
                                          "{\"prompt\":\"\"}",
                                          "{\"prompt\":\"x\",\"id\":[1]}",
                                          "{\"prompt\":\"x\",\"prompt\":\"y\"}"};
  for (const std::string& bad : bad_rows) {
    try {
      read_prompt_file(file_of("{\"prompt\":\"x\"}\n" + bad + "\n"));
      ADD_FAILURE() << "read " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find("prompts.jsonl:2"), std::string::npos) << error.message();
    }
  }
}

TEST(PromptFile, RefusesAFileWithoutPrompts) {
  EXPECT_THROW(read_prompt_file(file_of("\n \n")), Error);
}

TEST(PromptFile, AFileThatDoesNotExistIsToldFromOneThatIsNoFile) {
  const testing::TemporaryFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    try {
      read_prompt_file(path);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("none");
  };
  const auto absent = folder.path() / "none.jsonl";
  EXPECT_EQ(refusal(absent), "cannot open " + absent.string() + ": No such file or directory");
  EXPECT_EQ(refusal(folder.path()), folder.path().string() + " is not a regular file");
}

}  // namespace
}  // namespace slip::cli
