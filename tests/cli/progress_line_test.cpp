// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace slip::cli {
namespace {

WarmupProgress halfway() {
  WarmupProgress progress;
  progress.phase = WarmupPhase::kTraining;
  progress.done = 150;
  progress.total = 300;
  progress.loss = 2.3456;
  progress.alpha = 0.4;
  progress.heldout_loss = 2.5;
  progress.heldout_alpha = 0.39;
  progress.tokens_per_s = 12345.6;
  progress.seconds_left = 187;
  return progress;
}

TEST(ProgressLine, ShowsHowFarHowWellHowFastAndHowLong) {
  const std::string text = progress_text(halfway(), {});
  for (const char* part :
       {"50 %", "150/300", "loss 2.346", "α 0.400", "held out 2.500 / 0.390", "12,346 tokens/s", "3:07 left"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(ProgressLine, BarAndColourOnlyWhereTheyBelong) {
  const ProgressStyle wide{.terminal = true, .colour = true, .columns = 120};
  EXPECT_NE(progress_text(halfway(), wide).find("\x1b[36m████████████░"), std::string::npos);
  const ProgressStyle plain{.terminal = true, .colour = false, .columns = 120};
  EXPECT_EQ(progress_text(halfway(), plain).find('\x1b'), std::string::npos);
  const ProgressStyle narrow{.terminal = true, .colour = true, .columns = 60};
  EXPECT_EQ(progress_text(halfway(), narrow).find("█"), std::string::npos);
}

TEST(ProgressLine, UntilFlatHasNoShareAndNoTimeLeft) {
  WarmupProgress progress = halfway();
  progress.total = 0;
  progress.seconds_left = -1;
  const std::string text = progress_text(progress, {});
  EXPECT_NE(text.find("step 150 (until flat)"), std::string::npos);
  EXPECT_EQ(text.find('%'), std::string::npos);
  EXPECT_EQ(text.find("left"), std::string::npos);
}

TEST(ProgressLine, DurationsReadLikeAClock) {
  EXPECT_EQ(duration_text(42.4), "42 s");
  EXPECT_EQ(duration_text(59.9), "1:00");
  EXPECT_EQ(duration_text(3727), "1:02:07");
}

TEST(ProgressLine, NoColorIsHonoured) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(progress_style().colour);
  ::unsetenv("NO_COLOR");
}

}  // namespace
}  // namespace slip::cli
