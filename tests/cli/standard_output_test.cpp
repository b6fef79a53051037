// SPDX-License-Identifier: Apache-2.0
#include "cli/standard_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "common/file.h"
#include "ledger/ledger.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

using ::testing::HasSubstr;

const std::string kModels = std::string(SLIPSTREAM_SOURCE_DIR) + "/checkpoints/demo/";

// The built program, started by a shell.
class StandardOutput : public ::testing::Test {
 protected:
  // Its exit status.
  int run(const std::string& command_line) {
    const std::string error_file = (folder_.path() / "err").string();
    const std::string line = std::string(SLIPSTREAM_BINARY_DIR) + "/slipstream " + command_line + " 2>" + error_file;
    const int status = std::system(line.c_str());
    err_ = read_file(error_file, /*max_bytes=*/1 << 20);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const testing::TemporaryFolder folder_;
  std::string err_;
};

// Commands whose output was lost on a full disk ended with status 0.
TEST_F(StandardOutput, AFullOneIsAnError) {
  LedgerOptions options;
  options.file = folder_.path() / "ledger.db";
  const Ledger ledger(options);
  for (const std::string& command : {std::string("version"), std::string("--help"), std::string("completion bash"),
                                     "inspect " + kModels + "draft", "report topics --db " + options.file.string(),
                                     "generate --target " + kModels + "target --prompt x --max-tokens 2"}) {
    EXPECT_EQ(run(command + " >/dev/full"), 1) << command;
    EXPECT_THAT(err_, HasSubstr("standard output")) << command;
  }
}

// A report to /dev/stdout went into the file that holds the place of a closed one.
TEST_F(StandardOutput, AClosedOneIsAnErrorUnderItsNameToo) {
  LedgerOptions options;
  options.file = folder_.path() / "ledger.db";
  const Ledger ledger(options);
  EXPECT_EQ(run("report topics --db " + options.file.string() + " --out /dev/stdout >&-"), 1);
  EXPECT_THAT(err_, HasSubstr("cannot write /dev/stdout"));
}

TEST_F(StandardOutput, AClosedOneIsAnErrorAndNoFileTakesItsPlace) {
  EXPECT_EQ(run("version >&-"), 1);
  EXPECT_THAT(err_, HasSubstr("standard output"));
}

}  // namespace
}  // namespace slip::cli
