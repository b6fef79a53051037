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
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "sql.lineage";
  const LearningCurve curve =
      LearningCurve::resumed(0.7, {{0, 20, {1.0 / 3, 0.01}}, {20, 48, {0.1, 0.02}}, {20, 60, {-0.01, 0.03}}});
  write_lineage(
      file,
      {.source = "sql", .version = 3, .steps_before = 40, .steps = 7, .draws = 9, .curve = curve, .step_seconds = 0.1});
  const TrainerLineage read = read_lineage(file);
  EXPECT_EQ(read.source, "sql");
  EXPECT_EQ(read.version, 3U);
  EXPECT_EQ(read.steps_before, 40U);
  EXPECT_EQ(read.steps, 7U);
  EXPECT_EQ(read.draws, 9U);
  EXPECT_EQ(read.curve, curve);
  EXPECT_EQ(read.curve.measured().size(), 3U);
  EXPECT_EQ(read.step_seconds, 0.1);
  std::ofstream(file) << "slipstream-optimizer-2 sql 3 40 7 9\n";
  EXPECT_EQ(read_lineage(file).draws, 9U) << "as an earlier version wrote it";
  EXPECT_TRUE(read_lineage(file).curve.empty());
}

TEST(TrainerLineage, AnythingElseIsRefusedByName) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "sql.lineage";
  EXPECT_EQ(refused(file), ErrorCode::kNotFound);
  for (const char* text : {"", "slipstream-optimizer-1 sql 3 40 7 9\n", "slipstream-optimizer-2 sql 3 40 7\n",
                           "slipstream-optimizer-2 sql three 40 7 9\n", "slipstream-optimizer-3 sql 3 40 7 9\n",
                           "slipstream-optimizer-3 sql 3 40 7 9\n0.1 0.7 2\n0 20 0.3 0.01\n",
                           "slipstream-optimizer-3 sql 3 40 7 9\n0.1 0.7 999999999999\n",
                           "slipstream-optimizer-3 sql 3 40 7 9\n-1 0.7 0\n"}) {
    std::ofstream(file) << text;
    EXPECT_EQ(refused(file), ErrorCode::kDataLoss) << text;
  }
  std::ofstream(file) << std::string(10'000, 'x');
  EXPECT_EQ(refused(file), ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace slip
