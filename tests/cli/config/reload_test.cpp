// SPDX-License-Identifier: Apache-2.0
#include "cli/config/reload.h"

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

TEST(Reload, KeysCertificatesAndExamplesAreTaken) {
  ServeConfig now = running(), file = running();
  now.server.tls_certificate = "old.crt";
  now.server.tls_key = "old.key";
  file.server.tls_certificate = "new.crt";
  file.server.tls_key = "new.key";
  file.api_keys_file = "keys";
  file.server.key_limits.tokens_per_minute = 9;
  file.topics[0].examples.push_back("one more");
  const ReloadPlan plan = plan_reload(now, file, true);
  EXPECT_THAT(plan.changed, ElementsAre("server.api_keys_file", "server.key_tokens_per_minute",
                                        "server.tls_certificate", "server.tls_key", "topic"));
  EXPECT_THAT(plan.needs_restart, IsEmpty());
  EXPECT_EQ(plan.next.topics[0].examples.back(), "one more");
}

TEST(Reload, BetweenHttpAndHttpsIsARestart) {
  ServeConfig plain = running(), tls = running(), half = running();
  tls.server.tls_certificate = half.server.tls_certificate = "c";
  tls.server.tls_key = "k";
  EXPECT_THAT(plan_reload(plain, tls, true).needs_restart, ElementsAre("server.tls_certificate", "server.tls_key"));
  EXPECT_THAT(plan_reload(tls, plain, true).needs_restart, ElementsAre("server.tls_certificate", "server.tls_key"));
  EXPECT_EQ(plan_reload(tls, half, true).next.server.tls_key, "") << "so that reading them names the fault";
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
