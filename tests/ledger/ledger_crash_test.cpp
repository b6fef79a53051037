// SPDX-License-Identifier: Apache-2.0
// A child records and dies; the parent opens what it left.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/fail_point.h"
#include "ledger/ledger.h"
#include "tests/common/patience.h"
#include "tests/ledger/ledger_fixture.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::LedgerTest;
using testing::numbered;

// In a child: records rows in batches, tells through the pipe what was flushed, dies at the n-th fail point.
std::uint64_t flushed_before_death(const fs::path& file, int n, bool& killed) {
  int acknowledged[2];
  EXPECT_EQ(::pipe(acknowledged), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto options = options_for(file);
    options.commit_interval_us = 60 * kSecondUs;
    Ledger ledger(options);
    arm_fail_point("ledger.*:" + std::to_string(n) + ":kill");
    for (std::uint64_t i = 1; i <= 12; ++i) {
      ledger.record(numbered(i));
      if (i % 3 != 0) continue;
      ledger.flush();
      if (::write(acknowledged[1], &i, sizeof(i)) != sizeof(i)) ::_exit(2);
    }
    ::_exit(0);
  }
  ::close(acknowledged[1]);
  std::uint64_t last = 0, value = 0;
  while (::read(acknowledged[0], &value, sizeof(value)) == sizeof(value)) last = value;
  ::close(acknowledged[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  killed = WIFSIGNALED(status);
  return last;
}

TEST_F(LedgerTest, KilledAtAnyPointItOpensWithEveryCommittedRow) {
  int n = 1;
  for (;; ++n) {
    fs::remove(file_);
    fs::remove(file_.string() + "-wal");
    fs::remove(file_.string() + "-shm");
    bool killed = false;
    const std::uint64_t flushed = flushed_before_death(file_, n, killed);
    if (!killed) break;
    ASSERT_NO_THROW(Ledger{options_for(file_)}) << n;
    const std::int64_t kept = count("SELECT COUNT(*) FROM requests");
    EXPECT_GE(kept, static_cast<std::int64_t>(flushed)) << n;
    EXPECT_EQ(kept % 3, 0) << "a batch is there or it is not, crash " << n;
    EXPECT_EQ(count("SELECT IFNULL(MAX(request_id), 0) FROM requests"), kept) << n;
    EXPECT_EQ(count("SELECT IFNULL(SUM(reached), 0) FROM acceptance"), 10 * kept) << n;
  }
  EXPECT_EQ(n - 1, 4 * (3 + 3));  // four batches: begin, three inserts, commit, committed
}

// The child's planted bug: it acknowledges before the row is committed, and the check above must see the loss.
TEST_F(LedgerTest, NegativeAnAcknowledgementBeforeTheCommitWouldShow) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto options = options_for(file_);
    options.commit_interval_us = 60 * kSecondUs;
    Ledger ledger(options);
    ledger.record(numbered(1));
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  const Ledger again(options_for(file_));
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 0);
}

// A child records a row each 2 ms for 1.7 s and is killed. Returns the moment of the kill.
std::int64_t kill_while_recording(const fs::path& file) {
  int begun[2];
  EXPECT_EQ(::pipe(begun), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    LedgerOptions options;  // the interval a service has
    options.file = file;
    Ledger ledger(options);
    if (::write(begun[1], "x", 1) != 1) ::_exit(2);
    for (std::uint64_t i = 1;; ++i) {
      ledger.record(numbered(i));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ::close(begun[1]);
  char byte = 0;
  EXPECT_EQ(::read(begun[0], &byte, 1), 1);
  ::close(begun[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  const std::int64_t killed_us = wall_us();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return killed_us;
}

// The writer has the lowest nice level, and a busy machine can keep it waiting for longer than its interval, so up to
// eight kills may show it.
TEST_F(LedgerTest, KillDashNineLosesAtMostOneSecond) {
  // Under a sanitizer the commit itself takes a while on a busy machine.
  const std::int64_t most_lost_us = testing::kPatience > 1 ? kSecondUs * 3 / 2 : kSecondUs;
  std::int64_t lost_us = most_lost_us;
  for (int tries = 0; lost_us >= most_lost_us && tries < 8; ++tries) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file_.string() + suffix);
    const std::int64_t killed_us = kill_while_recording(file_);
    const Ledger again(options_for(file_));
    lost_us = killed_us - count("SELECT IFNULL(MAX(finished_us), 0) FROM requests");
    EXPECT_EQ(count("SELECT IFNULL(MAX(request_id), 0) - COUNT(*) FROM requests"), 0);  // without holes
  }
  EXPECT_LT(lost_us, most_lost_us);
}

}  // namespace
}  // namespace slip
