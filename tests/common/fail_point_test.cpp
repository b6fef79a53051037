// SPDX-License-Identifier: Apache-2.0
#include "common/fail_point.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "common/error.h"

namespace slip {
namespace {

class FailPoint : public ::testing::Test {
 protected:
  void TearDown() override { arm_fail_point(""); }
};

TEST_F(FailPoint, IsSilentWhenNothingIsArmed) {
  EXPECT_NO_THROW(fail_point("store.write"));
}

TEST_F(FailPoint, FailsAtTheNthHitOnly) {
  arm_fail_point("store.write:2:enospc");
  EXPECT_NO_THROW(fail_point("store.write"));
  EXPECT_NO_THROW(fail_point("store.fsync"));
  EXPECT_THROW(fail_point("store.write"), Error);
  EXPECT_NO_THROW(fail_point("store.write"));
}

TEST_F(FailPoint, AStarMatchesAnySuffix) {
  arm_fail_point("store.*:3:enospc");
  fail_point("store.write");
  fail_point("ledger.write");
  fail_point("store.fsync");
  EXPECT_THROW(fail_point("store.rename"), Error);
}

TEST_F(FailPoint, ADisarmedPointDoesNothing) {
  arm_fail_point("store.write:1:enospc");
  arm_fail_point("");
  EXPECT_NO_THROW(fail_point("store.write"));
}

TEST_F(FailPoint, AMalformedTriggerArmsNothing) {
  for (const char* text : {"store.write", ":1:kill", "store.write:x:enospc"}) {
    arm_fail_point(text);
    EXPECT_NO_THROW(fail_point("store.write")) << text;
  }
}

TEST_F(FailPoint, KillEndsTheProcessAsKillDashNine) {
  const pid_t child = ::fork();
  if (child == 0) {
    arm_fail_point("store.write:1:kill");
    fail_point("store.write");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

}  // namespace
}  // namespace slip
