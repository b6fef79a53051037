// SPDX-License-Identifier: Apache-2.0
#include "cli/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slip::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServeConfig running() {
  ServeConfig config;
  config.target = "target";
  config.topics = built_in_topics();
  return config;
}

TEST(Reload, TheSameFileChangesNothing) {
  const ReloadPlan plan = plan_reload(running(), running(), true);
  EXPECT_THAT(plan.changed, IsEmpty());
  EXPECT_THAT(plan.needs_restart, IsEmpty());
  EXPECT_EQ(listed(plan.changed), "nothing");
}

TEST(Reload, WhatCanChangeIsTakenAndTheRestIsNamed) {
  ServeConfig file = running();
  file.log.level = LogLevel::kDebug;
  file.min_free_bytes = 5;
  file.learning = false;
  file.topics[0].aliases = {"tsql"};
  file.server.port = 9;
  file.engine.k = 5;
  const ReloadPlan plan = plan_reload(running(), file, true);
  EXPECT_THAT(plan.changed, ElementsAre("data.min_free_bytes", "learning.enabled", "log.level", "topic"));
  EXPECT_THAT(plan.needs_restart, ElementsAre("server.port", "speculation.k"));
  EXPECT_EQ(plan.next.topics[0].aliases, std::vector<std::string>{"tsql"});
  EXPECT_EQ(plan.next.server.port, running().server.port) << "as it runs";
  EXPECT_FALSE(plan.next.learning);
  EXPECT_EQ(listed(plan.needs_restart), "server.port, speculation.k");
}

TEST(Reload, AnotherSetOfTopicsNeedsARestart) {
  ServeConfig file = running();
  file.topics.push_back({"law", {}});
  const ReloadPlan plan = plan_reload(running(), file, true);
  EXPECT_THAT(plan.changed, IsEmpty());
  EXPECT_THAT(plan.needs_restart, ElementsAre("topic"));
}

TEST(Reload, LearningThatNeverBeganNeedsARestart) {
  ServeConfig now = running(), file = running();
  now.learning = false;
  EXPECT_THAT(plan_reload(now, file, /*started_with_learning=*/false).needs_restart, ElementsAre("learning.enabled"));
  EXPECT_THAT(plan_reload(now, file, /*started_with_learning=*/true).changed, ElementsAre("learning.enabled"));
}

}  // namespace
}  // namespace slip::cli
