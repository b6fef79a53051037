// SPDX-License-Identifier: Apache-2.0
#include "cli/service/purger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "distill/replay/replay_buffer.h"
#include "ledger/database.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/common/test_clock.h"
#include "tests/distill/sample_records.h"
#include "tests/failing_allocations.h"

namespace slip::cli {
namespace {

class PurgerTest : public ::testing::Test {
 protected:
  PurgerTest() {
    LedgerOptions options;
    options.file = folder_.path() / "ledger.db";
    ledger_.emplace(options);
    for (std::uint64_t id = 1; id <= 3; ++id) {
      RequestRow row;
      row.request_id = id;
      row.http_id = "order-" + std::to_string(id);
      row.tenant = 7;
      row.finished_us = wall_us();
      ledger_->record(row);
    }
  }
  PurgeReplay counting() {
    return [this](const PurgeScope& scope) {
      scopes_.push_back(scope);
      return scope.calls.size();
    };
  }

  static std::future<PurgeResult> submit(Purger& purger, TenantId tenant = {7}) {
    const auto made = std::make_shared<std::promise<PurgeResult>>();
    purger.submit({"", tenant, std::nullopt}, [made](PurgeResult one) { made->set_value(std::move(one)); });
    return made->get_future();
  }

  testing::TemporaryFolder folder_;
  std::optional<Ledger> ledger_;
  std::vector<PurgeScope> scopes_;
};

TEST_F(PurgerTest, ARequestIsNamedByItsAnswerOrByItsHeader) {
  PurgeResult result = carry_out({"order-2", TenantId{7}, std::nullopt}, *ledger_, counting());
  EXPECT_FALSE(result.error);
  EXPECT_EQ(result.records, 1U);
  EXPECT_EQ(result.rows, 1U);
  EXPECT_EQ(scopes_.back().calls, std::vector<RequestId>{RequestId{2}});
  EXPECT_EQ(scopes_.back().tenant, TenantId{7});
  result = carry_out({"chatcmpl-0000000000000003", TenantId{7}, std::nullopt}, *ledger_, counting());
  EXPECT_EQ(result.rows, 1U);
  EXPECT_EQ(scopes_.back().calls, std::vector<RequestId>{RequestId{3}});
  result = carry_out({"order-1", TenantId{8}, std::nullopt}, *ledger_, counting());
  EXPECT_EQ(result.rows, 0U) << "another tenant's";
  EXPECT_FALSE(scopes_.back().any_call()) << "a name that is nobody's must not become a purge of everything";
  EXPECT_EQ(ledger_->calls_named("order-1", std::nullopt).size(), 1U);
}

// The ledger commits later than replay: after a crash it may lack the row, and the purge found nothing.
TEST_F(PurgerTest, ANameThatTheLedgerLacksIsFoundInReplay) {
  const auto replay = folder_.path() / "replay";
  {
    ReplayOptions options;
    options.folder = replay;
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 20; id <= 23; ++id) {
      ReplayRecord record = testing::make_record(id, "sql");
      record.tenant = TenantId{7};
      record.name = name_hash(id == 22 ? "customer-42" : "customer-" + std::to_string(id));
      buffer.append(record);
    }
    buffer.sync();
  }
  const PurgeReplay at_rest = [&](const PurgeScope& scope) { return purge_resting_replay(replay, scope); };
  EXPECT_EQ(carry_out({"customer-42", TenantId{8}, std::nullopt}, *ledger_, at_rest).records, 0U) << "another tenant's";
  const PurgeResult result = carry_out({"customer-42", TenantId{7}, std::nullopt}, *ledger_, at_rest);
  EXPECT_FALSE(result.error);
  EXPECT_EQ(result.records, 1U);
  EXPECT_EQ(result.rows, 0U);
  EXPECT_EQ(carry_out({"customer-42", TenantId{7}, std::nullopt}, *ledger_, at_rest).records, 0U);
  EXPECT_EQ(purge_resting_replay(replay, {}), 3U) << "the others are still there";
}

// A row that waited in memory, while the ledger could not be written, was not found by its name. The client was told
// that it was gone, and it was written later.
TEST_F(PurgerTest, ARowThatCannotBeWrittenYetIsNotCalledPurged) {
  ledger_->flush();
  Database other(folder_.path() / "ledger.db", Database::Mode::kReadWrite);
  other.execute("BEGIN IMMEDIATE");
  RequestRow row;
  row.request_id = row.call_id = 4;
  row.http_id = "order-4";
  row.tenant = 7;
  row.finished_us = wall_us();
  ledger_->record(row);
  for (const char* name : {"order-4", "chatcmpl-0000000000000004"}) {
    const PurgeResult result = carry_out({name, TenantId{7}, std::nullopt}, *ledger_, counting());
    ASSERT_TRUE(result.error) << name;
    EXPECT_NE(result.error->message().find("nothing was purged from the ledger"), std::string::npos) << name;
    EXPECT_EQ(scopes_.back().name, name_hash(name)) << "replay is purged all the same";
  }
  other.execute("ROLLBACK");
  const PurgeResult result = carry_out({"order-4", TenantId{7}, std::nullopt}, *ledger_, counting());
  EXPECT_FALSE(result.error);
  EXPECT_EQ(result.rows, 1U);
}

// A purge that there is no memory for reports it, and purges when it is asked for again.
TEST_F(PurgerTest, EachAllocationThatFailsIsReportedAndHidesNothing) {
  const testing::Spared own;
  set_log_level(LogLevel::kOff);
  Purger purger(*ledger_, [](const PurgeScope&) { return std::size_t{0}; });
  bool failed = true;
  int n_reported = 0;
  for (int n = 1; failed; ++n) {
    RequestRow row;
    row.request_id = row.call_id = static_cast<std::uint64_t>(100 + n);
    row.http_id = "order-" + std::to_string(100 + n);
    row.tenant = 7;
    row.finished_us = wall_us();
    ledger_->record(row);
    ledger_->flush();
    testing::until_failure = n;
    const PurgeResult result = submit(purger).get();
    failed = testing::until_failure.exchange(0) <= 0;
    ASSERT_TRUE(failed || !result.error) << result.error->message();
    if (result.error) {
      ++n_reported;
      const PurgeResult again = submit(purger).get();
      ASSERT_FALSE(again.error) << again.error->message();
    }
    ASSERT_TRUE(ledger_->calls_named(row.http_id, std::nullopt).empty()) << "n = " << n;
  }
  set_log_level(LogLevel::kInfo);
  EXPECT_GT(n_reported, 2);
}

TEST_F(PurgerTest, WhatFailsIsReported) {
  const auto refusing = [](const PurgeScope&) -> std::size_t { throw Error(ErrorCode::kIo, "disk full"); };
  const PurgeResult result = carry_out({"", TenantId{7}, std::nullopt}, *ledger_, refusing);
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->message(), "disk full");
  EXPECT_EQ(ledger_->calls_named("order-1", std::nullopt).size(), 1U) << "the ledger still knows what to look for";
}

TEST(PurgeForClient, NamesNoFolderOfTheOperators) {
  const PurgeResult made{
      0, 0, Error(ErrorCode::kIo, "cannot use /srv/my data/ledger.db: locked", "fuser /srv/my data/ledger.db")};
  for (const char* data_dir : {"/srv/my data", "/srv/my data/"}) {
    const PurgeResult told = for_client(made, data_dir);
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::kIo);
    EXPECT_EQ(told.error->message(), "cannot use ledger.db: locked");
    EXPECT_EQ(told.error->hint(), "fuser ledger.db");
  }
  EXPECT_EQ(for_client({3, 4, std::nullopt}, "/srv").rows, 4U);
}

TEST_F(PurgerTest, OrdersAreCarriedOutInTurn) {
  Purger purger(*ledger_, counting());
  std::vector<std::future<PurgeResult>> results;
  for (std::uint64_t id = 1; id <= 5; ++id) results.push_back(submit(purger, {id}));
  results.back().wait();
  ASSERT_EQ(scopes_.size(), 5U);
  for (std::uint64_t id = 1; id <= 5; ++id) EXPECT_EQ(scopes_[id - 1].tenant, TenantId{id});
}

TEST_F(PurgerTest, OrdersWaitInABoundAndEndWithTheService) {
  std::promise<void> begun, go_on;
  const auto until = go_on.get_future().share();
  Purger purger(*ledger_, [&begun, until](const PurgeScope&) -> std::size_t {
    begun.set_value();
    until.wait();
    return 1;
  });
  std::vector<std::future<PurgeResult>> results;
  results.push_back(submit(purger));
  begun.get_future().wait();
  bool refused = false;
  for (int i = 0; i < 100 && !refused; ++i) {
    try {
      results.push_back(submit(purger));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOverloaded);
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
  auto stopping = std::async(std::launch::async, [&] { purger.stop(); });
  while (true) {
    try {
      results.push_back(submit(purger));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kUnavailable) break;
    }
  }
  go_on.set_value();
  stopping.wait();
  EXPECT_FALSE(results.front().get().error) << "what was begun ends in order";
  const auto last = results.back().get();
  ASSERT_TRUE(last.error);
  EXPECT_EQ(last.error->code(), ErrorCode::kUnavailable);
}

// While a program held the ledger, each purge waited for those before it, for minutes in the end.
TEST_F(PurgerTest, OneThatHasWaitedForSecondsFailsWhenItsTurnComes) {
  testing::TestClock clock;
  std::promise<void> begun, go_on;
  int n_done = 0;
  {
    Purger purger(*ledger_, [&](const PurgeScope&) -> std::size_t {
      ++n_done;
      begun.set_value();
      go_on.get_future().wait();
      return 1;
    });
    auto first = submit(purger);
    begun.get_future().wait();
    auto second = submit(purger);
    clock.advance(6'000'000);
    go_on.set_value();
    EXPECT_FALSE(first.get().error);
    const PurgeResult late = second.get();
    ASSERT_TRUE(late.error);
    EXPECT_EQ(late.error->code(), ErrorCode::kUnavailable);
  }
  EXPECT_EQ(n_done, 1);
}

// A SIGTERM closed the connections of those that waited, without a word.
TEST_F(PurgerTest, ClosingFailsThoseThatWaitAtOnce) {
  std::promise<void> begun, go_on;
  Purger purger(*ledger_, [&](const PurgeScope&) -> std::size_t {
    begun.set_value();
    go_on.get_future().wait();
    return 1;
  });
  auto first = submit(purger);
  begun.get_future().wait();
  auto second = submit(purger);
  purger.close();  // the first one still runs
  EXPECT_EQ(second.get().error.value().code(), ErrorCode::kUnavailable);
  go_on.set_value();
  EXPECT_FALSE(first.get().error);
}

TEST(RestingReplay, NothingButThePurgeLeaves) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(purge_resting_replay(folder.path() / "replay", {.tenant = TenantId{1}}), 0U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "replay"));
  ReplayOptions options;
  options.folder = folder.path() / "replay";
  {
    ReplayBuffer buffer(options);
    for (std::uint64_t id = 1; id <= 10; ++id) buffer.append(testing::make_record(id, "sql"));
  }
  EXPECT_EQ(purge_resting_replay(options.folder, {.calls = {RequestId{4}}}), 1U);
  EXPECT_EQ(ReplayBuffer(options).records("sql"), 9U);
}

// Such a folder, or one without permission, was a 500 that said nothing.
TEST(RestingReplay, AFolderThatCannotBeReadIsAnIoErrorThatNamesIt) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_symlink("replay", folder.path() / "replay");  // to itself
  try {
    purge_resting_replay(folder.path() / "replay", {.tenant = TenantId{1}});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(error.message().find("replay: "), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace slip::cli
