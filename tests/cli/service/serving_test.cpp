// SPDX-License-Identifier: Apache-2.0
// The service below its sockets: what the router decides changes the draft, never the answer, and what it learned
// stays.
#include "cli/service/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <set>
#include <string>

#include "checkpoints/draft_store.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "server/http/key_quotas.h"
#include "tests/common/patience.h"

namespace slip::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kSource = SLIPSTREAM_SOURCE_DIR;
const std::string kQuestion = "Tables: shop(id, name, city). How many shops are there in each city? Write a SQL query.";
// Of a kind that the shipped base draft knows.
const std::string kStory = "Mira has 12 apples and buys 4 boxes of 6 apples. How many apples does she have in total?";
constexpr std::uint64_t kMaxBytes = 1U << 30;

class Listener final : public TokenSink {
 public:
  void on_tokens(const TokenDelta& delta) override {
    tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
  }
  void on_finished(const RequestSummary& summary) override { finished_.set_value(summary); }
  RequestSummary wait() { return finished_.get_future().get(); }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  std::vector<std::int32_t> tokens_;
  std::promise<RequestSummary> finished_;
};

struct Answer {
  std::vector<std::int32_t> tokens;
  RequestSummary summary;
};

class ServingTest : public ::testing::Test {
 protected:
  ServingTest() {
    folder_ =
        std::filesystem::temp_directory_path() / ("slip-serving-" + std::to_string(::getpid()) + "-" +
                                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    config_.target = kSource / "checkpoints/demo/target";
    config_.draft = kSource / "checkpoints/demo/draft";
    config_.data_dir = folder_;
    config_.topics = built_in_topics();
    config_.learning = false;
  }
  ~ServingTest() override { std::filesystem::remove_all(folder_); }

  // A draft of math's own with the base draft's numbers in reverse order: it drafts rubbish.
  void plant_another_draft() const {
    ensure_private_directory(folder_);
    ensure_private_directory(folder_ / "drafts");
    DraftStore store(folder_ / "drafts");
    const auto staged = store.staging_folder("math");
    std::filesystem::copy_file(config_.draft / "config.json", staged / "config.json");
    std::string file = read_file(config_.draft / "model.safetensors", kMaxBytes);
    std::uint64_t header_bytes = 0;
    std::copy_n(file.data(), sizeof header_bytes, reinterpret_cast<char*>(&header_bytes));
    auto* numbers = reinterpret_cast<std::uint16_t*>(file.data() + sizeof header_bytes + header_bytes);
    std::reverse(numbers, reinterpret_cast<std::uint16_t*>(file.data() + file.size()));
    replace_file(staged / "model.safetensors", file, "test");
    DraftMeta meta;
    meta.draft = meta.topic = "math";
    meta.reason = "canary";
    meta.trained_requests = 24;
    store.publish(staged, meta);
  }

  static Answer ask(const ServedModel& model, std::optional<std::string_view> label,
                    std::optional<std::uint64_t> seed) {
    static std::uint64_t next_id = 1;
    const Route route = model.router->route(label, kStory);
    Request request;
    request.id = {next_id++};
    const std::string prompt = "<|bos|><|user|>\n" + kStory + "<|end|>\n<|assistant|>\n";
    request.prompt = model.tokenizer->encode(prompt, SpecialTokens::kParse);
    request.max_tokens = 48;
    request.route = {route.topic, {}, route.source};
    request.draft = model.live_drafts.at(route.topic.value);
    request.sampling.temperature = seed ? 0.9F : 0.0F;
    request.sampling.seed = seed;
    const auto sink = std::make_shared<Listener>();
    request.sink = sink;
    model.engine.submit(std::move(request));
    Answer answer;
    answer.summary = sink->wait();
    answer.tokens = sink->tokens();
    return answer;
  }

  std::filesystem::path folder_;
  ServeConfig config_;
  KeyQuotas quotas_{ApiKeys{}};
  Metrics metrics_;
};

// It started, and its figures went into the other target's ledger.
TEST_F(ServingTest, ADataDirectoryOfAnotherTargetIsRefusedWithoutADraftToo) {
  ensure_private_directory(folder_);
  ensure_private_directory(folder_ / "drafts");
  {
    DraftStore store(folder_ / "drafts");
    const auto staged = store.staging_folder(kBaseDraft);
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(config_.draft / name, staged / name);
    }
    DraftMeta meta;
    meta.draft = kBaseDraft;
    meta.reason = "base";
    meta.target = "other-target";
    meta.target_fingerprint = "another";
    store.publish(staged, meta);
  }
  for (const bool with_draft : {true, false}) {
    if (!with_draft) config_.draft.clear();
    try {
      Serving(config_, metrics_, quotas_).save();
      ADD_FAILURE() << "it started, with a draft: " << with_draft;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kConflict) << error.message();
      for (const std::string& named :
           {(folder_ / "drafts").string(), std::string("other-target"), config_.target.string()}) {
        EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
      }
    }
  }
}

// Drafts and replay records that were deleted while the service was stopped got no word.
TEST_F(ServingTest, WhatIsMissingInTheDataDirectoryIsLoggedAtTheStart) {
  plant_another_draft();
  config_.learning = true;
  const auto warnings = [&] {
    ::testing::internal::CaptureStderr();
    Serving(config_, metrics_, quotas_).save();
    return ::testing::internal::GetCapturedStderr();
  };
  std::string said = warnings();
  EXPECT_EQ(said.find("which the ledger knows"), std::string::npos) << said;
  EXPECT_NE(said.find("replay holds no records, though drafts were trained"), std::string::npos) << said;
  std::filesystem::remove_all(folder_ / "drafts" / "math");
  said = warnings();
  EXPECT_NE(said.find("draft math: version 1, which the ledger knows, is missing in " + (folder_ / "drafts").string()),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("stop the service and restore that folder from a backup"), std::string::npos) << said;
  EXPECT_EQ(said.find("replay holds"), std::string::npos) << said;
}

// The router began again from the topics' examples, and only a line at level info told it.
TEST_F(ServingTest, ARouterStateThatIsMissingAfterLabelledRequestsIsLoggedAtTheStart) {
  config_.learning = true;
  const auto warns_after = [&](std::optional<std::string_view> label) {
    ::testing::internal::CaptureStderr();
    {
      Serving serving(config_, metrics_, quotas_);
      ask(*serving.model(), label, std::nullopt);
      serving.save();
    }
    std::filesystem::remove(folder_ / "router.state");
    return ::testing::internal::GetCapturedStderr().find("what the router learned from them is lost") !=
           std::string::npos;
  };
  EXPECT_FALSE(warns_after(std::nullopt));
  EXPECT_FALSE(warns_after("math")) << "no request before has named its topic";
  EXPECT_TRUE(warns_after(std::nullopt));
}

// What is left for an answer without max_tokens is what is left of the cache where that is smaller than the context:
// otherwise no such request was answered.
TEST_F(ServingTest, AContextLargerThanTheCacheIsTheCaches) {
  const auto max_positions = [&] { return Serving(config_, metrics_, quotas_).model()->max_positions; };
  const std::int32_t context = max_positions();
  config_.cache_tokens = 100;
  EXPECT_GT(context, 128);
  EXPECT_EQ(max_positions(), 128) << "four pages of 32";
}

TEST_F(ServingTest, RoutingChangesTheDraftAndNeverTheAnswer) {
  plant_another_draft();
  config_.engine.adaptive_k = false;  // or measured step times may decide that drafting does not pay
  Serving serving(config_, metrics_, quotas_);
  const auto model = serving.model();
  for (const auto& seed : {std::optional<std::uint64_t>{}, std::optional<std::uint64_t>{7}}) {
    const Answer inferred = ask(*model, std::nullopt, seed), math = ask(*model, "math", seed);
    const Answer sql = ask(*model, "sql", seed), unknown = ask(*model, "unknown", seed);
    EXPECT_EQ(inferred.summary.route.source, TopicSource::kInferred);
    EXPECT_EQ(inferred.summary.route.topic, math.summary.route.topic);
    EXPECT_EQ(inferred.summary.figures.last_version, 1U) << "the planted draft";
    EXPECT_EQ(sql.summary.figures.last_version, 0U);
    EXPECT_LT(inferred.summary.figures.accepted, sql.summary.figures.accepted) << "or the drafts do not differ";
    EXPECT_EQ(inferred.tokens.size(), 48U);
    for (const Answer* other : {&sql, &math, &unknown}) EXPECT_EQ(other->tokens, inferred.tokens);
  }
}

// It says whether a seed still means the same answer, so a draft that was swapped must not change it.
TEST_F(ServingTest, TheSystemFingerprintIsTheTargetsWhateverTheDrafts) {
  std::set<std::string> seen;
  const auto look = [&] {
    Serving serving(config_, metrics_, quotas_);
    seen.insert(serving.model()->system_fingerprint);
    const LiveDraft& live_draft = *serving.model()->live_drafts.at(1);
    auto swapped = std::make_shared<DraftVersion>(*live_draft.get());
    swapped->number += 1;
    serving.model()->live_drafts.at(1)->set(std::move(swapped));
    seen.insert(serving.model()->system_fingerprint);
  };
  look();
  plant_another_draft();
  look();
  ASSERT_EQ(seen.size(), 1U);
  config_.draft.clear();
  seen.insert(Serving(config_, metrics_, quotas_).model()->system_fingerprint);
  EXPECT_EQ(seen.size(), 1U) << "nor whether there are any";
  EXPECT_TRUE(seen.begin()->starts_with("fp_"));
}

TEST_F(ServingTest, WhatTheRouterLearnedIsThereAfterARestart) {
  config_.learning = true;
  TopicClassifier learned;
  {
    Serving serving(config_, metrics_, quotas_);
    Router& router = *serving.model()->router;
    const TopicId math = router.topics()->find("math").value();
    for (int i = 0; i < 8; ++i) router.learn(math, "Wie viele Äpfel bleiben übrig?");
    learned = router.copy();
    serving.drain(std::chrono::seconds(10));
    serving.save();
  }
  Serving again(config_, metrics_, quotas_);
  EXPECT_EQ(again.model()->router->copy(), learned);
  EXPECT_EQ(again.model()->router->lessons(), 8U);
  const Route route = again.model()->router->route(std::nullopt, "Wie viele Äpfel sind es?");
  EXPECT_EQ((*again.model()->router->topics())[route.topic].name, "math");
}

TEST_F(ServingTest, WithoutLearningTheRouterLearnsNothing) {
  Serving serving(config_, metrics_, quotas_);
  Router& router = *serving.model()->router;
  router.learn({1}, "select");
  EXPECT_EQ(router.lessons(), 0U);
  serving.drain(std::chrono::seconds(10));
  serving.save();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "router.state"));
}

// Switching learning off while it serves stopped the drafts' trainer, and the router went on.
TEST_F(ServingTest, SwitchingLearningOffFreezesTheRouterToo) {
  config_.learning = true;
  for (const bool router_learns : {true, false}) {
    config_.router.learn = router_learns;
    Serving serving(config_, metrics_, quotas_);
    EXPECT_TRUE(serving.started_with_learning());
    Router& router = *serving.model()->router;
    serving.set_learning(false);
    router.learn({1}, "select");
    EXPECT_EQ(router.lessons(), 0U);
    serving.set_learning(true);
    router.learn({1}, "select");
    EXPECT_EQ(router.lessons(), router_learns ? 1U : 0U) << "router.learn has its own say";
    config_.data_dir = folder_ / "another";
  }
}

// Each start measured them anew. A file that cannot be used or written costs measurements, never a start or a stop.
TEST_F(ServingTest, ARestartBeginsWithTheStepTimesOfTheRunBefore) {
  const std::filesystem::path file = folder_ / "step_times.json";
  config_.threads = 1;
  const auto log_of_a_run = [&] {
    ::testing::internal::CaptureStderr();
    Serving serving(config_, metrics_, quotas_);
    ask(*serving.model(), "math", {});
    serving.drain(std::chrono::seconds(10));
    serving.save();
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string begins = "planning begins with the step times in " + file.string();
  EXPECT_THAT(log_of_a_run(), Not(HasSubstr(begins)));
  EXPECT_THAT(log_of_a_run(), HasSubstr(begins));
  config_.threads = 2;
  EXPECT_THAT(log_of_a_run(), HasSubstr(file.string() + " were measured with another number of threads"));
  EXPECT_THAT(log_of_a_run(), HasSubstr(begins)) << "the stop replaced it";
  replace_file(file, "{", "test");
  arm_fail_point("step_times.write:1:enospc");
  EXPECT_THAT(log_of_a_run(), AllOf(HasSubstr(file.string() + ": "), HasSubstr("step times are not stored: ")));
  EXPECT_EQ(read_file(file, kMaxBytes), "{");
  arm_fail_point("");
  log_of_a_run();
  EXPECT_THAT(log_of_a_run(), HasSubstr(begins));
}

// Past answers are kept where the operator lets the service learn, without a draft too, and a purge forgets them.
TEST_F(ServingTest, PastAnswersAreKeptWhileItLearnsAndForgottenByAPurge) {
  config_.learning = true;
  for (const bool drafts : {true, false}) {
    if (!drafts) config_.draft.clear();
    Serving serving(config_, metrics_, quotas_);
    const auto table = serving.model()->past_answers;
    ASSERT_NE(table, nullptr);
    const auto answers = table->of({}, {0});
    serving.set_learning(false);
    EXPECT_EQ(table->of({}, {0}), nullptr);
    serving.set_learning(true);
    EXPECT_EQ(table->of({}, {0}), answers);
    serving.purge({.before_us = 1});
    EXPECT_NE(table->of({}, {0}), answers);
    config_.data_dir = folder_ / "another";
  }
}

TEST_F(ServingTest, NoPastAnswersAreKeptThatNobodyLooksUpOrWants) {
  config_.learning = true;
  config_.past_answers_bytes = 0;
  EXPECT_EQ(Serving(config_, metrics_, quotas_).model()->past_answers, nullptr);
  config_.past_answers_bytes = 1 << 20;
  config_.engine.prompt_lookup = false;
  EXPECT_EQ(Serving(config_, metrics_, quotas_).model()->past_answers, nullptr);
  config_.engine.prompt_lookup = true;
  config_.learning = false;
  EXPECT_EQ(Serving(config_, metrics_, quotas_).model()->past_answers, nullptr);
}

// The client's record and the further answers to its prompt leave together.
TEST_F(ServingTest, AnIdleServiceSamplesAnswersThatAPurgeReaches) {
  config_.learning = true;
  Serving serving(config_, metrics_, quotas_);
  ask(*serving.model(), "math", {});
  const auto says = [&](const std::string& line) { return metrics_.text().find(line + "\n") != std::string::npos; };
  EXPECT_TRUE(testing::eventually([&] { return says("slipstream:replay_records 4"); })) << metrics_.text();
  EXPECT_TRUE(
      testing::eventually([&] { return says(R"(slipstream:learning_sampled_answers_total{topic="math"} 3)"); }));
  EXPECT_TRUE(says(R"(slipstream:learning_requests_total{topic="math"} 1)"));
  const PurgeResult purged = serving.purge({.before_us = wall_us()});
  EXPECT_EQ(purged.records, 4U);
  EXPECT_EQ(purged.rows, 1U) << "the ledger knows the client's answer only";
  serving.save();
}

TEST_F(ServingTest, LearningThatIsTheRoutersAloneMayBeSwitchedToo) {
  config_.learning = true;
  config_.draft.clear();
  Serving serving(config_, metrics_, quotas_);
  EXPECT_TRUE(serving.started_with_learning());
  serving.set_learning(false);
  serving.model()->router->learn({1}, "select");
  EXPECT_EQ(serving.model()->router->lessons(), 0U);
}

TEST_F(ServingTest, AHostileRouterStateIsKeptAsideAndServingStarts) {
  ensure_private_directory(folder_);
  replace_file(folder_ / "router.state", std::string(100'000, '\xFF'), "test");
  Serving serving(config_, metrics_, quotas_);
  const Route route = serving.model()->router->route(std::nullopt, kQuestion);
  EXPECT_EQ((*serving.model()->router->topics())[route.topic].name, "sql");
  EXPECT_EQ(read_file(folder_ / "router.state.bad", kMaxBytes).size(), 100'000U);
}

}  // namespace
}  // namespace slip::cli
