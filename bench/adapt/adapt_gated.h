// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "bench/adapt/adapt_replay.h"
#include "checkpoints/draft_store.h"
#include "distill/learner.h"
#include "distill/training_payback.h"

namespace slip::bench {

// Lets training go on at the pace of a busy engine, whose costs it assumes, or of one that is at rest after each
// request, so that training costs it nothing and its target samples answers. Counts what training and gate do.
class AssumedPace final : public Governor, public DecisionSink {
 public:
  AssumedPace(double steps_per_request, bool at_rest) : steps_per_request_(steps_per_request), at_rest_(at_rest) {}

  std::int64_t idle_us() const noexcept override { return at_rest_ ? std::numeric_limits<std::int64_t>::max() : 0; }
  bool allow_unit(LearningUnit) noexcept override { return true; }
  void unit_done() noexcept override {}
  StepDecision allow_step(const TopicProgress& topic) noexcept override;

  void on_decision(const CanaryDecision& decision) noexcept override;
  void on_published(const DraftMeta&) noexcept override { ++publishes; }
  void on_scored(const SameTextScore&) noexcept override {}
  void on_learning(const LearningFigures& figures) noexcept override;
  void on_dropped(std::uint64_t) noexcept override {}

  std::atomic<std::int64_t> publishes{0}, rollbacks{0}, optimizer_steps{0};
  std::atomic<double> training_s{0};

 private:
  double steps_per_request_;
  bool at_rest_;
  TopicPause pause_;
};

struct GatedSetting {
  double steps_per_request = 1;
  std::uint64_t seed = 1;
  const SampledAnswers& sampled;  // what the target answers when the learner asks for further answers
};

// A learner as `serve` runs it, with canary and rollback, for the records of one topic. Each record is learned before
// the next one is told, so the result depends on no timing. Threads: one owner.
class GatedLearning {
 public:
  GatedLearning(const std::filesystem::path& base_folder, std::shared_ptr<const ModelWeights> base,
                const GatedSetting& setting);
  ~GatedLearning();

  const ModelWeights& serving() const { return *live_->get()->weights; }
  void take(const ReplayRecord& record);
  const AssumedPace& stop();  // ends learning; what it did

 private:
  void tell(ObservedRequest request, const ReplayRecord& answer);
  void answer_again(const Request& request);
  void wait();

  const std::filesystem::path folder_;
  const SampledAnswers& sampled_;
  std::map<std::vector<std::int32_t>, std::size_t> n_told_;  // sampled answers, by prompt; learner's thread
  DraftStore store_;
  ReplayBuffer replay_;
  const TopicTable topics_;
  AssumedPace pace_;
  std::shared_ptr<const DraftVersion> base_;
  std::shared_ptr<LiveDraft> live_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace slip::bench
