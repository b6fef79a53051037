// SPDX-License-Identifier: Apache-2.0
#include "cli/process/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace slip::cli {
namespace {

// A service took 1,024 connections under a shell's limit of 1,024 files, and then had none for its ledger.
TEST(OpenFiles, AreAllowedAsFarAsTheHardLimitLets) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GE(before.rlim_max, 500U);
  const rlimit tight{300, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto now = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  };
  EXPECT_EQ(allow_open_files(400), 400U);
  EXPECT_EQ(now(), 400U);
  EXPECT_EQ(allow_open_files(100), 400U) << "never lowered";
  EXPECT_EQ(allow_open_files(RLIM_INFINITY), before.rlim_max);
  EXPECT_EQ(now(), before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// A hard limit of 1,024 files let 1,100 silent connections take every descriptor: accept() failed, so that no idle
// connection made room, and /healthz timed out.
TEST(OpenFiles, ConnectionsLeaveRoomForProbesAndOwnFiles) {
  EXPECT_EQ(files_for(1024), 1024U + 16U + 256U);
  EXPECT_EQ(connections_within(files_for(1024), 1024), 1024);
  EXPECT_EQ(connections_within(files_for(1024) - 1, 1024), 1023);
  EXPECT_EQ(connections_within(RLIM_INFINITY, 1024), 1024);
  EXPECT_EQ(connections_within(1024, 1024), 1024 - 16 - 256);
  EXPECT_EQ(connections_within(1024, 65'536), 1024 - 16 - 256);
  EXPECT_EQ(connections_within(256, 1024), 256 - 16 - 128) << "below 512 files, half are its own";
  EXPECT_EQ(connections_within(64, 1024), 16);
  EXPECT_EQ(connections_within(64, 3), 3);
  EXPECT_EQ(connections_within(32, 1024), 1);
  EXPECT_EQ(connections_within(0, 1024), 1);
}

}  // namespace
}  // namespace slip::cli
