// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace slip {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TopicLearning topic(const std::string& name, std::uint64_t requests, std::uint64_t steps,
                    const std::string& state = "training") {
  TopicLearning one;
  one.topic = one.draft = name;
  one.requests = requests;
  one.optimizer_steps = steps;
  one.state = state;
  return one;
}

LearningFigures figures(double running_s, std::vector<TopicLearning> topics) {
  LearningFigures all;
  all.running_s = running_s;
  all.topics = std::move(topics);
  return all;
}

TEST(LearningLine, SaysWhatHappenedToEachTopicAndWhatItCost) {
  TopicLearning sql = topic("sql", 80, 120);
  sql.training_s = 9.5;
  sql.loss = 1.5;
  sql.alpha_live = 0.5;
  sql.alpha_base = 0.36;
  sql.published = 2;
  sql.refused = 1;
  sql.last_refusal = "below margin";
  sql.records_waiting = 3;
  LearningFigures now = figures(60, {sql, topic("math", 0, 0, "waits for requests")});
  now.share_of_service = 0.08;
  now.cost_tokens_per_s = 6.5;
  EXPECT_EQ(learning_line({}, now),
            "learning: sql 80 requests, 120 steps in 9.5 s, loss 1.500, α 0.500 (base 0.360), 2 published, 1 refused "
            "(below margin), 3 waiting, training; cost 8.0 % of the service, 6.5 tokens/s");
  EXPECT_EQ(learning_line(now, now), "") << "nothing happened since";
}

TEST(LearningLine, HoldsEightTopicsAtMost) {
  std::vector<TopicLearning> topics;
  for (int i = 0; i < 12; ++i) topics.push_back(topic("t" + std::to_string(i), 1, 1));
  const std::string line = learning_line({}, figures(60, topics));
  EXPECT_THAT(line, HasSubstr("t7 1 request, 1 step"));
  EXPECT_THAT(line, Not(HasSubstr("t8")));
  EXPECT_THAT(line, HasSubstr("and 4 topics more"));
}

// Reports of a topic with a request every 10 s, `steps` optimizer steps each; returns the warnings of `minutes`.
std::vector<std::string> warnings_of(StarvedSpells& spells, const std::string& state, int minutes,
                                     std::uint64_t steps_each, std::uint64_t waiting = 0, double from_s = 0) {
  std::vector<std::string> all;
  for (int second = 0; second <= minutes * 60; ++second) {
    const double now_s = from_s + second;
    const auto requests = static_cast<std::uint64_t>(now_s / 10);
    TopicLearning one = topic("sql", requests, requests * steps_each, state);
    one.records_waiting = waiting;
    for (auto& warning : starved_warnings(spells, figures(now_s, {one}))) all.push_back(std::move(warning));
  }
  return all;
}

TEST(StarvedWarnings, NameCauseAndRemedyOnceASpell) {
  StarvedSpells spells;
  EXPECT_THAT(warnings_of(spells, "over max_share", 10, 0), IsEmpty()) << "the first request came after 10 s";
  const auto warnings = warnings_of(spells, "over max_share", 50, 0, 0, 600);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0], HasSubstr("topic sql had 61 requests in 10 minutes and took no optimizer step"));
  EXPECT_THAT(warnings[0], HasSubstr("raise learning.max_share"));
}

TEST(StarvedWarnings, ATopicThatLearnsOrNeedNotIsSilent) {
  for (const auto& [state, steps] :
       {std::pair<const char*, std::uint64_t>{"training", 1}, {"the curve is flat", 0}, {"learning is off", 0}}) {
    StarvedSpells spells;
    EXPECT_THAT(warnings_of(spells, state, 60, steps), IsEmpty()) << state;
  }
}

TEST(StarvedWarnings, WithoutTrafficThereIsNone) {
  StarvedSpells spells;
  for (int minute = 0; minute < 60; ++minute) {
    const auto now = figures(60.0 * minute, {topic("sql", kStarvedRequests - 1, 0, "waits for requests")});
    EXPECT_THAT(starved_warnings(spells, now), IsEmpty());
  }
}

TEST(StarvedWarnings, AStepEndsTheSpellAndTheNextWarnsAgain) {
  StarvedSpells spells;
  EXPECT_THAT(warnings_of(spells, "training", 15, 0), SizeIs(1));
  TopicLearning stepped = topic("sql", 90, 5);
  EXPECT_THAT(starved_warnings(spells, figures(901, {stepped})), IsEmpty());
  std::vector<std::string> later;
  for (int second = 902; second < 902 + 1200; ++second) {
    stepped.requests = static_cast<std::uint64_t>(second / 10);
    for (auto& warning : starved_warnings(spells, figures(second, {stepped}))) later.push_back(std::move(warning));
  }
  ASSERT_THAT(later, SizeIs(1));
  EXPECT_THAT(later[0], HasSubstr("gets no processor time"));
}

TEST(StarvedWarnings, EachCauseHasARemedyOfItsOwn) {
  const auto warning = [](const std::string& state, std::uint64_t waiting) {
    StarvedSpells spells;
    const auto all = warnings_of(spells, state, 15, 0, waiting);
    return all.empty() ? "" : all[0];
  };
  EXPECT_THAT(warning("waits for requests", 0), HasSubstr("learning.batch_requests"));
  EXPECT_THAT(warning("waits for requests", 40), HasSubstr("40 answers wait to be scored"));
  EXPECT_THAT(warning("trainer failed: no memory", 0), HasSubstr("trainer failed: no memory; see `slipstream report"));
}

}  // namespace
}  // namespace slip
