// SPDX-License-Identifier: Apache-2.0
// Further answers to clients' prompts, which the learner asks for while the engine has nothing else to do.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/common/patience.h"
#include "tests/distill/learner_fixture.h"

namespace slip {
namespace {

using testing::answered;
using testing::kPatienceUs;
using testing::LearnerSetup;
using testing::tell;

// Grants every unit, and says what the test tells it of the engine and of the topic.
class Leisure final : public Governor {
 public:
  bool allow_unit(LearningUnit) noexcept override { return true; }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress& topic) noexcept override {
    answers_seen = topic.answers_seen;
    return {false, "waits for requests", 0.1, lacks_answers};
  }
  std::int64_t idle_us() const noexcept override { return idle; }

  std::atomic<bool> lacks_answers{true};
  std::atomic<std::int64_t> idle{2'000'000};
  std::atomic<std::uint64_t> answers_seen{0};
};

class LearnerSampling : public ::testing::Test {
 protected:
  // The learner asks this instead of an engine, which answers at once.
  void start(std::int32_t n_answers) {
    setup.options.sampled_answers = n_answers;
    setup.options.answer_again = [this](Request request) {
      const std::lock_guard lock(mutex_);
      if (refuses) {
        ++n_refused;
        throw std::runtime_error("the engine shuts down");
      }
      ++asked_[request.source->call.value];
      if (holds) return held_.push_back(std::move(request));
      answer(request);
    };
    learner = setup.make_learner(governor);
    learner->start();
  }
  void answer(const Request& request) {
    tell(learner->observations(), observed_request(request, AcceptanceRule::kCoupled),
         answered(1'000'000 + request.id.value % 1000), /*completed=*/true);
    request.sink->on_finished({});
  }
  void clients_ask(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t id = first; id <= last; ++id) tell(*learner, answered(id));
    settle();
  }
  // What the learner asks for in one round comes in the next.
  void settle() const {
    for (int i = 0; i < 12; ++i) ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  }
  std::map<std::uint64_t, int> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  int n_asked() const {
    int n = 0;
    for (const auto& [call, times] : asked()) n += times;
    return n;
  }
  std::vector<Request> held() {
    const std::lock_guard lock(mutex_);
    return std::exchange(held_, {});
  }

  LearnerSetup setup;
  Leisure governor;
  std::unique_ptr<Learner> learner;
  std::atomic<bool> refuses{false}, holds{false};
  std::atomic<int> n_refused{0};

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, int> asked_;  // by the client's call
  std::vector<Request> held_;
};

TEST_F(LearnerSampling, EachPromptIsAnsweredAsOftenAsConfigured) {
  start(3);
  clients_ask(1, 5);
  learner->stop();
  const auto times = asked();
  EXPECT_GE(times.size(), 3U) << "a tenth of the prompts is held out";
  for (const auto& [call, n] : times) EXPECT_EQ(n, 3) << call;
  EXPECT_EQ(governor.answers_seen, 5 + 3 * times.size());
  EXPECT_EQ(setup.replay.records("sql"), 5 + 3 * times.size());
  const LearningFigures figures = setup.recorded.figures();
  EXPECT_EQ(figures.topics[0].requests, 5U);
  EXPECT_EQ(figures.topics[0].sampled_answers, 3 * times.size());
}

TEST_F(LearnerSampling, SampledAnswersAreNeverScored) {
  start(3);
  clients_ask(1, 6);
  learner->stop();
  EXPECT_GT(n_asked(), 0);
  EXPECT_EQ(setup.recorded.scores().size(), 6U);
}

TEST_F(LearnerSampling, OnlyAfterASecondWithoutARequest) {
  governor.idle = 900'000;
  start(3);
  clients_ask(1, 6);
  EXPECT_EQ(n_asked(), 0);
  governor.idle = 1'000'000;
  clients_ask(7, 7);
  EXPECT_GT(n_asked(), 0);
}

TEST_F(LearnerSampling, OnlyWhereATopicLacksAnswers) {
  governor.lacks_answers = false;
  start(3);
  clients_ask(1, 6);
  EXPECT_EQ(n_asked(), 0);
}

TEST_F(LearnerSampling, NotWhileLearningIsSwitchedOff) {
  governor.idle = 0;
  start(3);
  clients_ask(1, 6);
  learner->set_enabled(false);
  governor.idle = 5'000'000;
  settle();
  EXPECT_EQ(n_asked(), 0);
}

TEST_F(LearnerSampling, ARoundAtATime) {
  holds = true;
  governor.idle = 0;
  start(3);
  clients_ask(1, 6);
  governor.idle = 2'000'000;
  ASSERT_TRUE(testing::eventually([&] { return n_asked() > 0; }));
  clients_ask(7, 7);
  EXPECT_EQ(n_asked(), 4) << "none more before these have ended";
  for (const Request& request : held()) answer(request);
  EXPECT_TRUE(testing::eventually([&] { return n_asked() == 8; })) << n_asked();
  for (const Request& request : held()) request.sink->on_finished({});
}

TEST_F(LearnerSampling, ARefusedRequestIsDropped) {
  refuses = true;
  start(1);
  clients_ask(1, 4);
  EXPECT_GT(n_refused, 0);
  refuses = false;
  clients_ask(5, 8);
  for (const auto& [call, n] : asked()) EXPECT_GE(call, 5U);
}

TEST_F(LearnerSampling, HeldOutPromptsAreNotAsked) {
  start(1);
  clients_ask(1, 60);
  learner->stop();
  const auto heldout = setup.replay.heldout("sql", 100);
  ASSERT_GT(heldout.size(), 0U);
  for (const ReplayRecord& record : heldout) {
    EXPECT_FALSE(record.sampled);
    EXPECT_FALSE(asked().contains(record.request.value));
  }
}

TEST_F(LearnerSampling, APurgeReachesTheAnswersAndThePrompt) {
  start(3);
  clients_ask(1, 3);
  const auto before = asked();
  ASSERT_FALSE(before.empty());
  const std::uint64_t call = before.begin()->first;
  EXPECT_EQ(learner->purge({.calls = {RequestId{call}}}), 4U);
  settle();
  EXPECT_EQ(asked(), before);
}

// Regression: while learning could not begin, as by a disk error, a purge did not reach the records that waited for it.
// They were scored later, and their prompts were answered again.
TEST_F(LearnerSampling, APurgeReachesWhatWaitsForLearningToBegin) {
  std::ofstream(setup.options.optimizer_folder) << "in the way";
  start(1);
  ASSERT_TRUE(testing::eventually([&] { return learner->failing(); }));
  for (std::uint64_t id = 1; id <= 3; ++id) tell(*learner, answered(id));
  for (std::uint64_t id = 1; id <= 2; ++id) EXPECT_EQ(learner->purge({.calls = {RequestId{id}}}), 1U);
  std::filesystem::remove(setup.options.optimizer_folder);
  settle();
  learner->stop();
  EXPECT_EQ(setup.recorded.figures().topics.at(0).requests, 1U);
  for (const SameTextScore& score : setup.recorded.scores()) EXPECT_EQ(score.request, RequestId{3});
  for (const auto& [call, n] : asked()) EXPECT_EQ(call, 3U);
}

// The engine may begin an answer after its prompt was purged.
TEST_F(LearnerSampling, AnAnswerThatWasAskedForBeforeAPurgeIsNotKept) {
  holds = true;
  start(1);
  clients_ask(1, 3);
  const auto requests = held();
  ASSERT_FALSE(requests.empty());
  learner->purge({.calls = {requests[0].source->call}});
  for (const Request& request : requests) answer(request);
  settle();
  learner->stop();
  EXPECT_EQ(setup.replay.records("sql"), 2U);
}

}  // namespace
}  // namespace slip
