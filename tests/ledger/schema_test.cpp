// SPDX-License-Identifier: Apache-2.0
#include "ledger/schema.h"

#include <gtest/gtest.h>
#include <array>

#include "common/error.h"
#include "tests/ledger/sample_ledger.h"

namespace slip {
namespace {

class SchemaTest : public ::testing::Test {
 protected:
  Database open() { return {folder_ / "x.db", Database::Mode::kReadWrite}; }
  TemporaryFolder folder_;
};

constexpr std::array<const char*, 3> kSteps = {
    "CREATE TABLE a (x INTEGER)", "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 7", "CREATE TABLE b (z INTEGER)"};

TEST_F(SchemaTest, OldLedgersAreBroughtUpToDateWithTheirRows) {
  Database database = open();
  migrate(database, std::span(kSteps).first(1));
  database.execute("INSERT INTO a VALUES (1)");
  migrate(database, kSteps);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 3);
  EXPECT_EQ(database.integer("SELECT x * 10 + y FROM a"), 17);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM b"), 0);
  migrate(database, kSteps);  // nothing left to do
  EXPECT_EQ(database.integer("PRAGMA user_version"), 3);
}

TEST_F(SchemaTest, AStepThatFailsLeavesTheVersionBefore) {
  constexpr std::array<const char*, 2> kBroken = {"CREATE TABLE a (x INTEGER)",
                                                  "CREATE TABLE b (x INTEGER); INSERT INTO nowhere VALUES (1)"};
  Database database = open();
  EXPECT_THROW(migrate(database, kBroken), Error);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM sqlite_master WHERE name = 'b'"), 0);
}

TEST_F(SchemaTest, ALedgerFromTheFutureIsRefused) {
  Database database = open();
  migrate(database, kSteps);
  try {
    migrate(database, std::span(kSteps).first(2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(error.message().find((folder_ / "x.db").string()), std::string::npos) << error.message();
  }
}

// It was taken for a place before the first step, and the program ended with an internal error.
TEST_F(SchemaTest, AFormatThatNobodyWroteIsDamage) {
  Database database = open();
  migrate(database, kSteps);
  database.execute("PRAGMA user_version = -1");
  try {
    migrate(database, kSteps);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(error.message().find((folder_ / "x.db").string()), std::string::npos) << error.message();
  }
}

// An operator has to know which file to move away; the message named none.
TEST_F(SchemaTest, AnotherProgramsDatabaseIsRefusedByItsFile) {
  Database database = open();
  database.execute("CREATE TABLE a (x INTEGER)");
  try {
    check_ours(database);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermission);
    EXPECT_EQ(error.message(), (folder_ / "x.db").string() + " is not a Slipstream ledger");
  }
}

// Before topics were inferred, a request had one by its label or none.
TEST_F(SchemaTest, OldRequestsSayWhereTheirTopicCameFrom) {
  Database database = open();
  migrate(database, ledger_migrations().first(1));
  for (const char* topic : {"sql", "unknown"}) {
    database.execute(std::string("INSERT INTO requests VALUES (NULL, 1, '', 5, '") + topic +
                     "', '', 0, 0, 'greedy', 0, 'length', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)");
  }
  migrate(database, ledger_migrations());
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM requests WHERE topic = 'sql' AND topic_source = 'label'"), 1);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM requests WHERE topic = 'unknown' AND topic_source = 'none'"), 1);
}

// A parent was a number alone.
TEST_F(SchemaTest, OldVersionsSayWhichDraftTheirParentIsOf) {
  Database database = open();
  migrate(database, ledger_migrations().first(2));
  const auto version = [&](int number, int parent, const char* reason) {
    Statement(database, "INSERT INTO draft_versions VALUES ('sql', ?, 'sql', ?, 5, ?, '', 0, 0, 1, 0, 0)")
        .run(number, parent, std::string(reason));
  };
  version(1, 1, "canary");
  version(2, 1, "rollback");
  version(3, 2, "canary");
  migrate(database, ledger_migrations());
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM draft_versions WHERE version <= 2 AND parent_draft = 'base'"), 2);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM draft_versions WHERE version = 3 AND parent_draft = 'sql'"), 1);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM learning"), 0);
}

// Acceptance was counted by position alone. The table is made anew while views name it.
TEST_F(SchemaTest, OldAcceptanceIsOfAnUnknownProposer) {
  Database database = open();
  migrate(database, ledger_migrations().first(8));
  database.execute("CREATE VIEW positions AS SELECT position, accepted FROM acceptance");
  for (const char* position : {"0", "1"}) {
    database.execute(std::string("INSERT INTO acceptance VALUES (10, 10, 'sql', 'sql', 2, ") + position +
                     ", 'greedy', '0', 5, 3, 2)");
  }
  migrate(database, ledger_migrations());
  refresh_views(database);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM acceptance WHERE proposer = 'unknown' AND rank = 0"), 2);
  EXPECT_EQ(database.integer("SELECT SUM(100 * reached + 10 * accepted + first_rejections) FROM acceptance"), 1064);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM sqlite_master WHERE name = 'acceptance_before'"), 0);
  EXPECT_EQ(database.integer("SELECT SUM(accepted) FROM positions"), 6);
}

TEST_F(SchemaTest, ViewsOfAnotherBuildAreReplaced) {
  Database database = open();
  migrate(database, ledger_migrations());
  refresh_views(database);
  database.execute("DROP VIEW topics; CREATE VIEW topics AS SELECT 1 AS old");
  refresh_views(database);
  EXPECT_EQ(database.integer("SELECT COUNT(*) FROM pragma_table_info('topics') WHERE name = 'base_alpha'"), 1);
  const std::int64_t changes = database.integer("PRAGMA schema_version");
  refresh_views(database);
  EXPECT_EQ(database.integer("PRAGMA schema_version"), changes);
}

TEST_F(SchemaTest, EveryViewAnswersOnAnEmptyLedger) {
  Database database = open();
  migrate(database, ledger_migrations());
  refresh_views(database);
  for (const auto& view : ledger_views()) {
    const std::int64_t rows = database.integer("SELECT COUNT(*) FROM " + view.name);
    EXPECT_EQ(rows, view.name == "report_scope" ? 1 : 0) << view.name;
  }
}

}  // namespace
}  // namespace slip
