// SPDX-License-Identifier: Apache-2.0
#include "ledger/lost_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/checkpoints/temporary_folder.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

TEST(LostLedger, OnlyADirectoryThatHasLearnedMissesOne) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(lost_ledger(folder.path()), std::nullopt) << "a first start";
  std::filesystem::create_directories(folder.path() / "replay");
  EXPECT_EQ(lost_ledger(folder.path()), std::nullopt);
  std::filesystem::create_directories(folder.path() / "drafts" / "base");
  EXPECT_THAT(lost_ledger(folder.path()), Optional(HasSubstr("ledger.db is missing, though")));
  std::ofstream(folder.path() / "ledger.db");
  EXPECT_THAT(lost_ledger(folder.path()), Optional(HasSubstr("ledger.db is empty, though")));
  std::ofstream(folder.path() / "ledger.db") << "SQLite format 3";
  EXPECT_EQ(lost_ledger(folder.path()), std::nullopt);
}

}  // namespace
}  // namespace slip
