// SPDX-License-Identifier: Apache-2.0
// A data directory for a learner, the observations that an engine would report for records, and the learner's
// decisions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "distill/learner.h"
#include "distill/learning_loop.h"
#include "tests/distill/tiny_draft.h"

namespace slip::testing {

inline constexpr std::int64_t kPatienceUs = 60'000'000;

// Keeps the learner's decisions.
class RecordedDecisions final : public DecisionSink {
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
  void on_learning(const LearningFigures& figures) noexcept override {
    const std::lock_guard lock(mutex_);
    figures_ = figures;
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
  LearningFigures figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
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
  LearningFigures figures_;
  std::uint64_t dropped_ = 0;
};

// Grants units only from the time when it is told to.
class GrantsOnDemand final : public Governor {
 public:
  explicit GrantsOnDemand(bool trains) : trains_(trains) {}
  bool allow_unit(LearningUnit) noexcept override { return grants; }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress&) noexcept override { return {trains_, "training", 0}; }

  std::atomic<bool> grants{false};

 private:
  const bool trains_;
};

// A data directory with a base draft in its store, as `serve` sets one up.
class LearnerSetup {
 public:
  // `replay_bytes`: replay's byte budget per topic.
  explicit LearnerSetup(std::uint64_t replay_bytes = ReplayOptions{}.max_bytes_per_topic)
      : store(folder.path() / "drafts"), replay(replay_options(replay_bytes)) {
    options.trainer.learning_rate = 5e-3;
    options.batch_requests = 8;  // stream() reports as many at a time, so that each of them gets its step
    options.steps_between_candidates = 8;
    options.near_copies.same_from = 2;  // off: this target gives similar answers to all prompts
    options.at_idle_priority = false;
    options.optimizer_folder = folder.path() / "optimizer";
    options.serve_dtype = Dtype::kFloat32;
    base = adopt("base", 1);
    live_draft = std::make_shared<LiveDraft>(DraftId{1}, "sql", under_own_name());
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
    return std::make_unique<Learner>(options, topics, std::vector<std::shared_ptr<LiveDraft>>{nullptr, live_draft},
                                     base, store, replay, policy, recorded);
  }
  // A loop of the only topic, on this thread.
  LearningLoop make_loop(const ReplayReader& reader, std::function<bool()> go_on) {
    const EarlierRecords none;
    return LearningLoop(
        {options, topics, {nullptr, live_draft}, base, store, reader, none, *governor, recorded, std::move(go_on), [] {
         }});
  }
  // Gives the loop a record that is in replay, as the learner does.
  void take(LearningLoop& loop, std::uint64_t id) {
    ReplayRecord record = answered(id);
    record.sequence = replay.append(record);
    loop.take({std::move(record), true, false, monotonic_us()});
  }
  // The base draft, which the topic has too, computes NaN from now on.
  void break_base() {
    DraftVersion broken = *base;
    broken.weights = broken_weights();
    base = std::make_shared<const DraftVersion>(std::move(broken));
    live_draft->set(under_own_name());
  }
  ReplayOptions replay_options(std::uint64_t bytes_per_topic = ReplayOptions{}.max_bytes_per_topic) const {
    ReplayOptions given;
    given.folder = folder.path() / "replay";
    given.max_bytes_per_topic = bytes_per_topic;
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

  TemporaryFolder folder;
  DraftStore store;
  ReplayBuffer replay;
  TopicTable topics{{{"sql", {}}}};
  LearnerOptions options;
  RecordedDecisions recorded;
  std::unique_ptr<Governor> governor = make_steps_per_request_governor(1.0);
  std::shared_ptr<const DraftVersion> base;
  std::shared_ptr<LiveDraft> live_draft;
};

// Reports the answer of `text` to a request as the engine would after plain decoding.
inline void tell(ObservationSink& sink, const ObservedRequest& request, const ReplayRecord& text, bool completed) {
  sink.begin(request);
  const std::span answer = std::span(text.tokens).subspan(static_cast<std::size_t>(text.prompt_tokens));
  for (std::size_t i = 0; i < answer.size(); ++i) {
    Observation observation;
    observation.request = request.request;
    observation.base_position = static_cast<std::int32_t>(request.prompt.size() + i);
    observation.committed = {answer[i]};
    observation.targets = {text.target[i]};
    sink.record(observation);
  }
  sink.finish(request.request, completed);
}

inline void tell(ObservationSink& sink, const ReplayRecord& record, bool completed = true, std::uint32_t topic = 1) {
  ObservedRequest request;
  request.request = record.request;
  request.route.topic = TopicId{topic};
  request.sampling = record.sampling;
  request.prompt.assign(record.tokens.begin(), record.tokens.begin() + record.prompt_tokens);
  tell(sink, request, record, completed);
}

inline void tell(Learner& learner, const ReplayRecord& record, bool completed = true, std::uint32_t topic = 1) {
  tell(learner.observations(), record, completed, topic);
}

inline void stream(Learner& learner, std::uint64_t first_id, int n) {
  for (std::uint64_t id = first_id; id < first_id + static_cast<std::uint64_t>(n); ++id) {
    tell(learner, answered(id));
    if (id % 8 != 0) continue;
    ASSERT_TRUE(learner.wait_idle(kPatienceUs));
  }
  ASSERT_TRUE(learner.wait_idle(kPatienceUs));
}

// Expects that a failure was logged once: the log has `first`, and `word` not again after that.
inline void expect_logged_once(const std::string& log, const std::string& first, const std::string& word) {
  const auto at = log.find(first);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(word, at + first.size()), std::string::npos) << log;
}

// A learner of its own learns from answers 1 to `n` and stops. Returns the version that then serves.
inline std::shared_ptr<const DraftVersion> learn_first(LearnerSetup& setup, int n = 160) {
  auto learner = setup.make_learner(*setup.governor);
  learner->start();
  stream(*learner, 1, n);
  learner->stop();
  return setup.live_draft->get();
}

}  // namespace slip::testing
