// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer_lineage.h"

#include <gtest/gtest.h>

#include <fstream>

#include "common/error.h"
#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

ErrorCode refused(const std::filesystem::path& file) {
  try {
    read_lineage(file);
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(file.string()), std::string::npos);
    return error.code();
  }
  ADD_FAILURE() << "accepted";
  return ErrorCode::kInternal;
}

TEST(TrainerLineage, IsReadAsItWasWritten) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() / "sql.lineage";
  write_lineage(file, {.source = "sql", .version = 3, .steps_before = 40, .steps = 7, .draws = 9});
  const TrainerLineage read = read_lineage(file);
  EXPECT_EQ(read.source, "sql");
  EXPECT_EQ(read.version, 3U);
  EXPECT_EQ(read.steps_before, 40U);
  EXPECT_EQ(read.steps, 7U);
  EXPECT_EQ(read.draws, 9U);
}

TEST(TrainerLineage, AnythingElseIsRefusedByName) {
  const testing::ScratchFolder folder;
  const auto file = folder.path() / "sql.lineage";
  EXPECT_EQ(refused(file), ErrorCode::kNotFound);
  for (const char* text : {"", "slipstream-optimizer-1 sql 3 40 7 9\n", "slipstream-optimizer-2 sql 3 40 7\n",
                           "slipstream-optimizer-2 sql three 40 7 9\n"}) {
    std::ofstream(file) << text;
    EXPECT_EQ(refused(file), ErrorCode::kDataLoss) << text;
  }
  std::ofstream(file) << std::string(10'000, 'x');
  EXPECT_EQ(refused(file), ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace slip
