// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

template <class Action>
std::string written_by(Action action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Log, WritesOneUtcLineToStandardError) {
  ::testing::internal::CaptureStdout();
  const auto line = written_by([] { log_warn("disk nearly full"); });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(line, MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+.[0-9]+Z warning disk nearly full\n"));
}

TEST_F(Log, EscapesControlsSoThatNoLineIsForged) {
  const auto line = written_by([] { log_info("a\n2026 error forged\x1b[2J\x7f"); });
  EXPECT_THAT(line, HasSubstr("a\\x0a2026 error forged\\x1b[2J\\x7f\n"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST_F(Log, EscapesC1ControlsAndKeepsOtherText) {
  EXPECT_THAT(written_by([] {
                log_info(
                    "\xC2\x9B"
                    "31m \xC2\xA0é日本 {} %n");
              }),
              HasSubstr("\\x9b31m \xC2\xA0é日本 {} %n"));
}

TEST_F(Log, LevelsBelowAreSilent) {
  EXPECT_EQ(written_by([] { log_debug("detail"); }), "");
  set_log_level(LogLevel::kError);
  EXPECT_EQ(written_by([] { log_warn("quiet"); }), "");
  EXPECT_THAT(written_by([] { log_error("loud"); }), HasSubstr("loud"));
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(written_by([] { log_error("nothing"); }), "");
}

TEST_F(Log, LevelNames) {
  EXPECT_EQ(parse_log_level("warn"), LogLevel::kWarn);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  EXPECT_THROW(parse_log_level("loud"), Error);
}

}  // namespace
}  // namespace slip
