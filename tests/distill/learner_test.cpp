// SPDX-License-Identifier: Apache-2.0
#include "distill/learner.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include "common/clock.h"
#include "common/fail_point.h"
#include "tests/distill/tiny_draft.h"

namespace slip {
namespace {

using testing::answered;
using testing::kTinyVocab;
using testing::next_token;
using testing::ScratchFolder;
using testing::tiny_config;

constexpr std::int64_t kPatienceUs = 60'000'000;

// Keeps what learning decided.
class Notebook final : public DecisionSink {
 public:
  void on_decision(const CanaryDecision& decision) noexcept override {
    const std::lock_guard lock(mutex_);
    decisions_.push_back(decision);
  }
  void on_published(const DraftMeta& meta) noexcept override {
    const std::lock_guard lock(mutex_);
    published_.push_back(meta);
  }
  void on_scored(const SameTextScore& score) noexcept override {
    const std::lock_guard lock(mutex_);
    scores_.push_back(score);
  }
  void on_dropped(std::uint64_t observations) noexcept override {
    const std::lock_guard lock(mutex_);
    dropped_ += observations;
  }

  std::size_t count(const std::string& kind) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(decisions_.begin(), decisions_.end(), [&](const CanaryDecision& d) { return d.kind == kind; }));
  }
  std::vector<CanaryDecision> decisions() const {
    const std::lock_guard lock(mutex_);
    return decisions_;
  }
  std::vector<SameTextScore> scores() const {
    const std::lock_guard lock(mutex_);
    return scores_;
  }
  std::vector<DraftMeta> published() const {
    const std::lock_guard lock(mutex_);
    return published_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CanaryDecision> decisions_;
  std::vector<DraftMeta> published_;
  std::vector<SameTextScore> scores_;
  std::uint64_t dropped_ = 0;
};

// A data directory with a base draft in its store, as `serve` sets one up.
class House {
 public:
  House() : store(folder.path() / "drafts"), replay(replay_options()) {
    options.trainer.learning_rate = 5e-3;
    options.steps_between_canaries = 16;
    options.at_idle_priority = false;
    options.optimizer_folder = folder.path() / "optimizer";
    options.serve_dtype = Dtype::kFloat32;
    base = adopt("base", 1);
    slot = std::make_shared<DraftSlot>(DraftId{1}, "sql", under_own_name());
  }

  // Publishes random weights as the next version of `draft`.
  std::shared_ptr<const DraftVersion> adopt(const std::string& draft, std::uint64_t seed, std::uint64_t parent = 0) {
    const auto staged = store.staging_folder(draft);
    DraftTrainer(tiny_config(), seed, {}).export_draft(staged);
    std::ofstream(staged / "tokenizer.json") << "{}";
    DraftMeta meta;
    meta.draft = draft;
    meta.parent = parent;
    meta.reason = parent == 0 ? "base" : "canary";
    meta = store.publish(staged, meta);
    return load(draft, meta.version);
  }
  std::shared_ptr<const DraftVersion> load(const std::string& draft, std::uint64_t version) {
    DraftVersion loaded{DraftId{draft == "base" ? 0U : 1U}, draft, version, 0,
                        ModelWeights::load(store.folder(draft, version), Dtype::kFloat32, true)};
    return std::make_shared<DraftVersion>(loaded);
  }
  // A topic without a version of its own serves the base draft's weights as version 0.
  std::shared_ptr<const DraftVersion> under_own_name() const {
    return std::make_shared<DraftVersion>(DraftVersion{DraftId{1}, "sql", 0, 0, base->weights});
  }
  std::unique_ptr<Learner> make_learner(Governor& policy) {
    return std::make_unique<Learner>(options, topics, std::vector<std::shared_ptr<DraftSlot>>{nullptr, slot}, base,
                                     store, replay, policy, notebook);
  }
  ReplayOptions replay_options() const {
    ReplayOptions given;
    given.folder = folder.path() / "replay";
    return given;
  }
  double alpha(const ModelWeights& draft, std::uint64_t first_id = 900'000) const {
    kernels::ThreadPool pool(1);
    DraftScorer scorer(tiny_config(), 256, pool);
    AcceptanceScore sum;
    for (std::uint64_t id = first_id; id < first_id + 20; ++id) {
      const AcceptanceScore score = scorer.score(draft, answered(id), 3);
      sum.accepted += score.accepted;
      sum.first_rejections += score.first_rejections;
    }
    return sum.alpha();
  }

  ScratchFolder folder;
  DraftStore store;
  ReplayBuffer replay;
  TopicTable topics{{{"sql", {}}}};
  LearnerOptions options;
  Notebook notebook;
  std::unique_ptr<Governor> governor = make_steps_per_request_governor(1.0);
  std::shared_ptr<const DraftVersion> base;
  std::shared_ptr<DraftSlot> slot;
};

// What the engine would tell about `record`, decoded plainly.
void tell(ObservationSink& sink, const ReplayRecord& record, bool completed = true, std::uint32_t topic = 1) {
  ObservedRequest request;
  request.request = record.request;
  request.route.topic = TopicId{topic};
  request.sampling = record.sampling;
  request.prompt.assign(record.tokens.begin(), record.tokens.begin() + record.prompt_tokens);
  request.session = "session " + std::to_string(record.request.value);
  sink.begin(request);
  for (std::size_t i = 0; i < record.target.size(); ++i) {
    Observation observation;
    observation.request = record.request;
    observation.base_position = record.prompt_tokens + static_cast<std::int32_t>(i);
    observation.committed = {record.tokens[static_cast<std::size_t>(observation.base_position)]};
    observation.rows = {{record.target[i], true}};
    sink.record(observation);
  }
  sink.finish(record.request, completed);
}

void stream(Learner& learner, std::uint64_t first_id, int n) {
  for (std::uint64_t id = first_id; id < first_id + static_cast<std::uint64_t>(n); ++id) {
    tell(learner, answered(id));
    if (id % 8 != 0) continue;
    ASSERT_TRUE(learner.wait_idle(kPatienceUs));
  }
  ASSERT_TRUE(learner.wait_idle(kPatienceUs));
}

TEST(Learner, LearnsPublishesAndServesWhatItLearned) {
  House house;
  const double before = house.alpha(*house.base->weights);
  auto learner = house.make_learner(*house.governor);
  learner->start();
  stream(*learner, 1, 160);
  learner->stop();
  const auto live = house.slot->get();
  EXPECT_LT(before, 0.3);
  EXPECT_GT(house.alpha(*live->weights), before + 0.3);
  EXPECT_GE(house.notebook.count("publish"), 1U);
  // The store, the slot and the ledger say the same.
  const auto current = house.store.current("sql");
  ASSERT_TRUE(current.has_value());
  EXPECT_EQ(current->version, live->number);
  EXPECT_EQ(house.notebook.published().back().version, live->number);
  const DraftMeta first = house.notebook.published().front();
  EXPECT_EQ(first.parent, house.base->number);
  EXPECT_EQ(first.topic, "sql");
  EXPECT_EQ(first.reason, "canary");
  EXPECT_GT(first.optimizer_steps, 0U);
  EXPECT_GT(first.trained_requests, 0U);
  EXPECT_GT(first.heldout_alpha, first.heldout_alpha_before);
  EXPECT_TRUE(std::filesystem::exists(house.store.folder("sql", first.version) / "tokenizer.json"));
  // Every request is scored on the same text by the live draft and the base draft.
  const auto scores = house.notebook.scores();
  EXPECT_EQ(scores.size(), 160U);
  EXPECT_GT(scores.back().live.alpha(), scores.back().base.alpha());
  EXPECT_EQ(scores.back().version, live->number);
  EXPECT_EQ(learner->dropped(), 0U);
  EXPECT_EQ(house.replay.records("sql"), 160U);
}

TEST(Learner, SwitchedOffItKeepsNothingAndGoesOnWhenSwitchedOn) {
  House house;
  auto learner = house.make_learner(*house.governor);
  learner->start();
  stream(*learner, 1, 16);
  learner->set_enabled(false);
  stream(*learner, 17, 48);
  EXPECT_EQ(learner->dropped(), 0U) << "as the operator wished";
  learner->set_enabled(true);
  stream(*learner, 65, 16);
  learner->stop();
  EXPECT_EQ(house.replay.records("sql"), 32U);
  EXPECT_EQ(house.notebook.scores().size(), 32U);
}

TEST(Learner, ALowDiskPausesItCountsWhatIsLostAndRoomLetsItGoOn) {
  House house;
  std::atomic<std::uint64_t> free_bytes{50};
  house.options.disk = std::make_shared<DiskSpace>(house.folder.path(), 100, [&] { return free_bytes.load(); });
  auto learner = house.make_learner(*house.governor);
  learner->start();
  stream(*learner, 1, 16);
  EXPECT_GT(learner->dropped(), 0U);
  EXPECT_TRUE(house.notebook.scores().empty());
  const std::uint64_t lost = learner->dropped();
  free_bytes = 1000;
  house.options.disk->set_least(100);
  stream(*learner, 17, 16);
  learner->stop();
  EXPECT_EQ(learner->dropped(), lost);
  EXPECT_EQ(house.replay.records("sql"), 16U);
  EXPECT_EQ(house.notebook.scores().size(), 16U);
}

TEST(Learner, ARecordThatTheDiskRefusesIsCountedAndTheNextIsKept) {
  House house;
  auto learner = house.make_learner(*house.governor);
  learner->start();
  arm_fail_point("replay.append.write:8:enospc");
  stream(*learner, 1, 8);
  EXPECT_TRUE(learner->replay_refused());
  EXPECT_GT(learner->dropped(), 0U);
  stream(*learner, 9, 8);
  arm_fail_point("");
  EXPECT_FALSE(learner->replay_refused());
  learner->stop();
  EXPECT_EQ(house.replay.records("sql"), 15U);
}

TEST(Learner, EveryDecisionHasItsFigures) {
  House house;
  auto learner = house.make_learner(*house.governor);
  learner->start();
  stream(*learner, 1, 96);
  learner->stop();
  ASSERT_FALSE(house.notebook.decisions().empty());
  for (const CanaryDecision& decision : house.notebook.decisions()) {
    EXPECT_EQ(decision.topic, "sql");
    EXPECT_EQ(decision.draft, "sql");
    EXPECT_GT(decision.at_us, 0);
    EXPECT_GE(decision.verdict.requests, house.options.canary.min_requests);
    EXPECT_FALSE(decision.verdict.reason.empty());
    EXPECT_EQ(decision.candidate_version != 0, decision.kind == "publish");
    EXPECT_GT(decision.train_steps, 0U);
  }
}

// Answers that are right, taught with distributions that are not: what such training gives never goes live.
TEST(Learner, NegativeACandidateTrainedOnShuffledLabelsIsNeverPublished) {
  House house;
  {
    auto learner = house.make_learner(*house.governor);
    learner->start();
    stream(*learner, 1, 160);
    learner->stop();
  }
  const auto good = house.slot->get();
  const double alpha = house.alpha(*good->weights);
  ASSERT_GT(alpha, 0.5);
  const std::size_t published = house.notebook.count("publish");
  house.options.trainer.learning_rate = 2e-2;
  auto learner = house.make_learner(*house.governor);
  learner->start();
  for (std::uint64_t id = 1001; id <= 1160; ++id) {
    ReplayRecord record = answered(id);
    for (TopK& top : record.target) {
      for (std::int32_t& token : top.ids) token = (token + 17) % kTinyVocab;
    }
    tell(*learner, record);
    if (id % 8 != 0) continue;
    ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  }
  learner->stop();
  EXPECT_EQ(house.notebook.count("publish"), published);
  EXPECT_GE(house.notebook.count("refuse"), 1U);
  EXPECT_EQ(house.slot->get()->number, good->number);
  EXPECT_EQ(house.alpha(*house.slot->get()->weights), alpha);
}

TEST(Learner, NegativeWeightsThatAreNotFiniteNeverLeave) {
  House house;
  house.options.trainer.learning_rate = std::nan("");
  house.options.steps_between_canaries = 4;
  auto learner = house.make_learner(*house.governor);
  learner->start();
  stream(*learner, 1, 64);
  learner->stop();
  EXPECT_EQ(house.notebook.count("publish"), 0U);
  EXPECT_GE(house.notebook.count("refuse"), 1U);
  EXPECT_EQ(house.slot->get()->weights, house.base->weights);
  for (const CanaryDecision& decision : house.notebook.decisions()) {
    EXPECT_NE(decision.verdict.reason.find("not exported"), std::string::npos) << decision.verdict.reason;
  }
}

// A bad version that went live all the same (here: put there by hand) is found out and rolled back.
TEST(Learner, AForcedBadPublishIsRolledBack) {
  House house;
  {
    auto learner = house.make_learner(*house.governor);
    learner->start();
    stream(*learner, 1, 160);
    learner->stop();
  }
  const auto good = house.slot->get();
  const auto bad = house.adopt("sql", 77, good->number);
  house.slot->set(bad);
  auto no_training = make_steps_per_request_governor(0);
  auto learner = house.make_learner(*no_training);
  learner->start();
  stream(*learner, 2001, 32);
  learner->stop();
  EXPECT_EQ(house.notebook.count("rollback"), 1U);
  EXPECT_EQ(house.slot->get()->number, good->number);
  EXPECT_EQ(house.store.current("sql")->version, good->number);
  EXPECT_GT(house.alpha(*house.slot->get()->weights), house.alpha(*bad->weights) + 0.2);
}

// The first version has the base draft before it, which is no version of the topic's draft: its weights become one.
TEST(Learner, ABadFirstVersionGoesBackToTheBaseWeights) {
  House house;
  ReplayRecord lesson = answered(1);
  DraftTrainer good({tiny_config(), 5, {.learning_rate = 5e-3}});
  for (int i = 0; i < 150; ++i) good.step(std::span(&lesson, 1));
  const auto staged = house.store.staging_folder("base");
  good.export_draft(staged);
  DraftMeta meta;
  meta.draft = "base";
  meta.reason = "base";
  meta = house.store.publish(staged, meta);
  house.base = house.load("base", meta.version);
  house.slot->set(house.adopt("sql", 77, house.base->number));
  auto no_training = make_steps_per_request_governor(0);
  auto learner = house.make_learner(*no_training);
  learner->start();
  stream(*learner, 1, 32);
  learner->stop();
  EXPECT_EQ(house.notebook.count("rollback"), 1U);
  EXPECT_EQ(house.slot->get()->weights, house.base->weights);
  const auto current = house.store.current("sql");
  EXPECT_EQ(current->version, 2U);
  EXPECT_EQ(current->version, house.slot->get()->number);
  EXPECT_EQ(current->reason, "rollback");
}

// One step a request: 40 before the restart, so whoever counts more than 40 has taken up the optimizer's state.
TEST(Learner, ARestartGoesOnWhereItStopped) {
  House house;
  {
    auto learner = house.make_learner(*house.governor);
    learner->start();
    stream(*learner, 1, 40);
    learner->stop();
  }
  EXPECT_TRUE(std::filesystem::exists(house.options.optimizer_folder / "sql.opt"));
  const auto current = house.store.current("sql");
  ASSERT_TRUE(current.has_value());
  EXPECT_LE(current->optimizer_steps, 40U);
  house.slot = std::make_shared<DraftSlot>(DraftId{1}, "sql", house.load("sql", current->version));
  auto learner = house.make_learner(*house.governor);
  learner->start();
  stream(*learner, 5001, 40);
  learner->stop();
  EXPECT_EQ(house.replay.records("sql"), 80U);
  EXPECT_GE(house.notebook.decisions().back().train_steps, 40U + 16);
}

TEST(Learner, CancelledRequestsAndOtherTopicsTeachNothing) {
  House house;
  auto learner = house.make_learner(*house.governor);
  learner->start();
  for (std::uint64_t id = 1; id <= 20; ++id) tell(*learner, answered(id), /*completed=*/false);
  for (std::uint64_t id = 21; id <= 40; ++id) tell(*learner, answered(id), true, /*topic=*/9);
  ReplayRecord strange = answered(50);
  strange.tokens[2] = kTinyVocab;  // not in the draft's vocabulary
  tell(*learner, strange);
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  EXPECT_EQ(house.replay.stats().records, 0U);
  EXPECT_TRUE(house.notebook.scores().empty());
}

// Never started: what a trainer thread that hangs looks like to the engine.
TEST(Learner, AStoppedConsumerNeverBlocksTheEngineAndDropsAreCounted) {
  House house;
  house.options.queue_observations = 256;
  auto learner = house.make_learner(*house.governor);
  const std::int64_t begin = monotonic_us();
  for (std::uint64_t id = 1; id <= 400; ++id) tell(*learner, answered(id));
  EXPECT_LT(monotonic_us() - begin, 5'000'000);
  EXPECT_GT(learner->dropped(), 400U * 20);
  learner->start();
  ASSERT_TRUE(learner->wait_idle(kPatienceUs));
  learner->stop();
  // What was left of the newest requests is whole or dropped, never half.
  EXPECT_GT(house.replay.records("sql"), 0U);
  for (const ReplayRecord& record : house.replay.newer_than("sql", 0, 1000)) {
    EXPECT_EQ(record.tokens, answered(record.request.value).tokens);
  }
}

TEST(Learner, StopsAtOnceAndTwice) {
  House house;
  auto learner = house.make_learner(*house.governor);
  learner->stop();
  learner = house.make_learner(*house.governor);
  learner->start();
  std::thread engine([&] {
    for (std::uint64_t id = 1; id <= 200; ++id) tell(*learner, answered(id));
  });
  const std::int64_t begin = monotonic_us();
  learner->stop();
  learner->stop();
  EXPECT_LT(monotonic_us() - begin, 10'000'000);
  engine.join();
}

// A unit is only done when the governor allows it.
class Stubborn final : public Governor {
 public:
  bool allow_unit() noexcept override { return false; }
  void unit_done() noexcept override {}
  bool allow_step(std::uint64_t, std::uint64_t) noexcept override { return true; }
  void on_step(const StepFigures&) noexcept override {}
  void on_finished(const RequestSummary&) noexcept override {}
};

TEST(Learner, NothingIsScoredOrTrainedWithoutLeaveButRecordsAreKept) {
  House house;
  Stubborn stubborn;
  auto learner = house.make_learner(stubborn);
  learner->start();
  for (std::uint64_t id = 1; id <= 30; ++id) tell(*learner, answered(id));
  EXPECT_FALSE(learner->wait_idle(300'000));
  learner->stop();
  EXPECT_EQ(house.replay.records("sql"), 30U);
  EXPECT_TRUE(house.notebook.scores().empty());
  EXPECT_TRUE(house.notebook.decisions().empty());
}

}  // namespace
}  // namespace slip
