// SPDX-License-Identifier: Apache-2.0
#include "server/learning_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <algorithm>
#include <string>
#include <vector>

namespace slip {
namespace {

LearningFigures figures() {
  LearningFigures figures;
  figures.at_us = 10'000'000;
  figures.share_of_service = 0.08;
  figures.cost_tokens_per_s = 6.5;
  figures.records_untaken = 128;
  TopicLearning sql;
  sql.topic = sql.draft = "sql";
  sql.live_version = 4;
  sql.requests = 80;
  sql.records_waiting = 3;
  sql.records_unscored = 1;
  sql.optimizer_steps = 120;
  sql.training_s = 9.5;
  sql.scoring_s = 1.25;
  sql.loss = 1.5;
  sql.lag_s = 2;
  sql.alpha_live = 0.5;
  sql.alpha_base = 0.36;
  sql.predicted_gain = 0.02;
  sql.realised_gain = 0.14;
  sql.state = "the curve is flat";
  TopicLearning math;
  math.topic = "math";
  math.state = "waits for requests";
  figures.topics = {sql, math};
  return figures;
}

bool has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

TEST(LearningFamilies, HaveASeriesATopicWithUnits) {
  const std::string text = prometheus::TextSerializer().Serialize(learning_families(figures(), 13'500'000));
  for (const char* line : {"# TYPE slipstream:learning_optimizer_steps_total counter",
                           R"(slipstream:learning_optimizer_steps_total{topic="sql"} 120)",
                           R"(slipstream:learning_optimizer_steps_total{topic="math"} 0)",
                           R"(slipstream:learning_requests_total{topic="sql"} 80)",
                           R"(slipstream:learning_records_waiting{topic="sql"} 3)",
                           R"(slipstream:learning_records_unscored_total{topic="sql"} 1)",
                           R"(slipstream:learning_training_seconds_total{topic="sql"} 9.5)",
                           R"(slipstream:learning_scoring_seconds_total{topic="sql"} 1.25)",
                           "# TYPE slipstream:learning_loss_nats gauge",
                           R"(slipstream:learning_loss_nats{topic="sql"} 1.5)",
                           R"(slipstream:learning_lag_seconds{topic="sql"} 2)",
                           R"(slipstream:learning_acceptance_ratio{scored="live",topic="sql"} 0.5)",
                           R"(slipstream:learning_acceptance_ratio{scored="base",topic="sql"} 0.36)",
                           R"(slipstream:learning_predicted_gain_ratio{topic="sql"} 0.02)",
                           R"(slipstream:learning_realised_gain_ratio{topic="sql"} 0.14)",
                           R"(slipstream:learning_live_version{draft="sql",topic="sql"} 4)",
                           "slipstream:learning_service_share_ratio 0.08",
                           "slipstream:learning_cost_tokens_per_second 6.5",
                           "slipstream:learning_records_untaken_total 128",
                           "slipstream:learning_report_age_seconds 3.5"}) {
    EXPECT_TRUE(has(text, line)) << line << "\n" << text;
  }
  EXPECT_EQ(text.find(R"(acceptance_ratio{scored="live",topic="math"})"), std::string::npos) << "never scored";
}

TEST(LearningFamilies, AStateIsOneOfABoundedSet) {
  LearningFigures now = figures();
  now.topics[1].state = "sentence number 7,301 of a person";
  const std::string text = prometheus::TextSerializer().Serialize(learning_families(now, 0));
  EXPECT_TRUE(has(text, R"(slipstream:learning_state{state="flat",topic="sql"} 1)"));
  EXPECT_TRUE(has(text, R"(slipstream:learning_state{state="training",topic="sql"} 0)"));
  EXPECT_TRUE(has(text, R"(slipstream:learning_state{state="other",topic="math"} 1)"));
  EXPECT_EQ(text.find("7,301"), std::string::npos);
}

// Prometheus' own rule: a family without help, or one that has another's name, confuses whoever reads it.
TEST(LearningFamilies, EachHasANameOfItsOwnAndHelp) {
  std::vector<std::string> names;
  for (const auto& family : learning_families(figures(), 0)) {
    EXPECT_GT(family.help.size(), 20U) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total")) << family.name;
    names.push_back(family.name);
  }
  const std::size_t n = names.size();
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(names.size(), n);
}

TEST(MemoryFamilies, TheRestIsNeverNegative) {
  const auto value = [](std::uint64_t resident) {
    const auto families = memory_families({{"a", 70}, {"b", 50}}, resident);
    return families[0].metric.back().gauge.value;
  };
  EXPECT_EQ(value(200), 80);
  EXPECT_EQ(value(100), 0) << "pages that were asked for and never touched";
}

}  // namespace
}  // namespace slip
