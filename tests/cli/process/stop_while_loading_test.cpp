// SPDX-License-Identifier: Apache-2.0
#include "cli/process/stop_while_loading.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace slip::cli {
namespace {

// Bug: a stop signal waited for the end of the load, which takes a minute for a large model on a cold disk.
TEST(StopWhileLoadingDeathTest, ASignalEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto load_for_ever = [](int signal) {
    const StopSignal signals;
    const StopWhileLoading while_loading(signals);
    std::raise(signal);
    std::this_thread::sleep_for(std::chrono::minutes(10));
    std::_Exit(3);
  };
  EXPECT_EXIT(load_for_ever(SIGTERM), ::testing::ExitedWithCode(0), "stopped while the model was loading");
  EXPECT_EXIT(load_for_ever(SIGINT), ::testing::ExitedWithCode(0), "");
}

TEST(StopWhileLoading, AfterTheLoadASignalIsReportedAsAlways) {
  const StopSignal signals;
  { const StopWhileLoading while_loading(signals); }
  std::raise(SIGTERM);
  EXPECT_TRUE(signals.stop_arrived());
  EXPECT_EQ(signals.next(), StopSignal::Kind::kStop);
}

}  // namespace
}  // namespace slip::cli
