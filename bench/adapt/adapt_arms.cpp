// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_arms.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "bench/adapt/adapt_gated.h"
#include "common/error.h"
#include "engine/sampling/random.h"

namespace slip::bench {
namespace {

constexpr std::size_t kFinalRequests = 100;  // of the stream, if there are no dev records
constexpr std::int64_t kStepsBetweenExports = 10;

// A draft that serves a stream and may change after each request.
class Arm {
 public:
  virtual ~Arm() = default;
  virtual const ModelWeights& serving() const = 0;
  virtual void finished(const ReplayRecord& record) = 0;
  virtual void report(ArmRun& run) = 0;
};

class NoLearning final : public Arm {
 public:
  explicit NoLearning(std::shared_ptr<const ModelWeights> base) : base_(std::move(base)) {}
  const ModelWeights& serving() const override { return *base_; }
  void finished(const ReplayRecord&) override {}
  void report(ArmRun&) override {}

 private:
  std::shared_ptr<const ModelWeights> base_;
};

class Ungated final : public Arm {
 public:
  Ungated(const ArmSetting& setting, std::shared_ptr<const ModelWeights> base, std::uint64_t seed)
      : serving_(std::move(base)), training_(setting.draft, setting.ours, seed), sampled_(setting.sampled) {}
  const ModelWeights& serving() const override { return *serving_; }
  void finished(const ReplayRecord& record) override {
    training_.take(record);
    for (const ReplayRecord& answer : sampled_.to(prompt_of(record))) training_.take(answer);
    if (training_.steps() - exported_at_ < kStepsBetweenExports) return;
    exported_at_ = training_.steps();
    serving_ = training_.weights();
    ++publishes_;
  }
  void report(ArmRun& run) override {
    run.optimizer_steps = training_.steps();
    run.training_seconds = training_.seconds();
    run.publishes = publishes_;
  }

 private:
  std::shared_ptr<const ModelWeights> serving_;
  OnlineTraining training_;
  const SampledAnswers& sampled_;
  std::int64_t exported_at_ = 0, publishes_ = 0;
};

class Gated final : public Arm {
 public:
  Gated(const ArmSetting& setting, std::shared_ptr<const ModelWeights> base, std::uint64_t seed)
      : learning_(setting.draft, std::move(base), {setting.ours.steps_per_request, seed, setting.sampled}) {}
  const ModelWeights& serving() const override { return learning_.serving(); }
  void finished(const ReplayRecord& record) override { learning_.take(record); }
  void report(ArmRun& run) override {
    const AssumedPace& done = learning_.stop();
    run.optimizer_steps = done.optimizer_steps;
    run.training_seconds = done.training_s;
    run.publishes = done.publishes;
    run.rollbacks = done.rollbacks;
  }

 private:
  GatedLearning learning_;
};

struct OsdSetting {
  double learning_rate = 1e-4;
  std::size_t interval = 8;  // requests per update
};

// Keeps the targets only at positions where serving with `draft` would first reject in a chain of k, by the greedy
// rule.
ReplayRecord rejected_positions(const DraftTrainer& draft, const ReplayRecord& record, int k) {
  ReplayRecord masked = record;
  const auto vocab = static_cast<std::size_t>(draft.config().vocab_size);
  const auto n_rows = std::min(record.tokens.size() - 1, static_cast<std::size_t>(draft.config().max_positions));
  const std::vector<float> logits = draft.logits(std::span(record.tokens).first(n_rows));
  const auto accepted = [&](std::size_t answer) {
    const std::size_t row = static_cast<std::size_t>(record.prompt_tokens) + answer - 1;
    if (row >= n_rows) return true;  // beyond the draft's context
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
    return std::max_element(first, first + static_cast<std::ptrdiff_t>(vocab)) - first == record.tokens[row + 1];
  };
  std::vector<bool> rejected(record.target.size());
  for (std::size_t at = 1, in_chain = 0; at < rejected.size(); ++at) {
    rejected[at] = in_chain < static_cast<std::size_t>(k) && !accepted(at);
    // After a rejection this token is the target's correction; after a fully accepted chain it is the bonus token.
    in_chain = rejected[at] || in_chain == static_cast<std::size_t>(k) ? 0 : in_chain + 1;
  }
  for (std::size_t at = 0; at < rejected.size(); ++at) {
    if (!rejected[at]) masked.target[at] = {};
  }
  return masked;
}

class Osd final : public Arm {
 public:
  Osd(const ArmSetting& setting, OsdSetting osd)
      : k_(setting.k), osd_(osd), trainer_(setting.draft, options(osd)), serving_(trainer_.weights(Dtype::kBFloat16)) {}
  const ModelWeights& serving() const override { return *serving_; }
  void finished(const ReplayRecord& record) override {
    buffer_.push_back(rejected_positions(trainer_, record, k_));
    if (buffer_.size() < osd_.interval) return;
    const auto start = std::chrono::steady_clock::now();
    trainer_.step(buffer_);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    buffer_.clear();
    serving_ = trainer_.weights(Dtype::kBFloat16);
    ++publishes_;
  }
  void report(ArmRun& run) override {
    run.optimizer_steps = trainer_.steps();
    run.training_seconds = seconds_;
    run.publishes = publishes_;
  }

 private:
  static TrainerOptions options(const OsdSetting& osd) {
    TrainerOptions options;
    options.learning_rate = osd.learning_rate;
    return options;
  }

  int k_;
  OsdSetting osd_;
  DraftTrainer trainer_;
  std::shared_ptr<const ModelWeights> serving_;
  std::vector<ReplayRecord> buffer_;
  std::int64_t publishes_ = 0;
  double seconds_ = 0;
};

std::vector<ReplayRecord> final_records(const ArmSetting& setting) {
  if (!setting.dev.empty()) return setting.dev;
  const std::size_t n = std::min(kFinalRequests, setting.stream.size());
  return {setting.stream.end() - static_cast<std::ptrdiff_t>(n), setting.stream.end()};
}

// Scores each request with the draft that serves when it arrives, before any training on it.
ArmRun serve(const ArmSetting& setting, RecordScorer& scorer, Arm& arm) {
  ArmRun run;
  const auto look = [&](std::size_t requests) {
    if (!setting.dev.empty()) run.looks.push_back({requests, scorer.alpha(arm.serving(), setting.dev)});
  };
  look(0);
  for (std::size_t i = 0; i < setting.stream.size(); ++i) {
    run.served.push_back(scorer.score(arm.serving(), setting.stream[i]));
    arm.finished(setting.stream[i]);
    if ((i + 1) % setting.look_every == 0) look(i + 1);
  }
  arm.report(run);
  if (!setting.dev.empty()) {
    run.final_alpha = scorer.alpha(arm.serving(), setting.dev);
    return run;
  }
  AcceptanceScore sum;
  const std::size_t n = std::min(kFinalRequests, run.served.size());
  for (std::size_t i = run.served.size() - n; i < run.served.size(); ++i) {
    sum.accepted += run.served[i].accepted;
    sum.first_rejections += run.served[i].first_rejections;
  }
  run.final_alpha = sum.alpha();
  return run;
}

ArmRun serve_tuned_osd(const ArmSetting& setting, RecordScorer& scorer) {
  std::optional<ArmRun> best;
  for (const double rate : {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3}) {
    for (const std::size_t interval : {std::size_t{1}, std::size_t{8}}) {
      Osd arm(setting, {rate, interval});
      ArmRun run = serve(setting, scorer, arm);
      run.chosen = "rate " + std::to_string(rate) + ", interval " + std::to_string(interval);
      if (!best || run.final_alpha > best->final_alpha) best = std::move(run);
    }
  }
  return *best;
}

std::vector<ReplayRecord> shuffled(const std::vector<ReplayRecord>& records, std::uint64_t seed, std::uint32_t epoch) {
  std::vector<std::size_t> order(records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    const RandomAddress address{seed, epoch, static_cast<std::uint32_t>(i)};
    const double drawn = uniform(address, RandomPurpose::kDraft, 0) * static_cast<double>(i);
    std::swap(order[i - 1], order[static_cast<std::size_t>(drawn)]);
  }
  std::vector<ReplayRecord> result;
  for (const std::size_t index : order) result.push_back(records[index]);
  return result;
}

// The upper bound: early stopping uses the final records, so it may be too high.
ArmRun train_offline(const ArmSetting& setting, RecordScorer& scorer, std::uint64_t seed) {
  constexpr std::uint32_t kMaxEpochs = 40, kPatience = 4;
  constexpr double kRise = 0.002;
  const auto scored_on = final_records(setting);
  DraftTrainer trainer(setting.draft, setting.ours.trainer);
  ArmRun run;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t epoch = 0, best_epoch = 0; epoch < kMaxEpochs && epoch < best_epoch + kPatience; ++epoch) {
    const auto records = shuffled(setting.stream, seed, epoch);
    for (std::size_t at = 0; at < records.size(); at += setting.ours.batch) {
      trainer.step(std::span(records).subspan(at, std::min(setting.ours.batch, records.size() - at)));
    }
    const double alpha = scorer.alpha(*trainer.weights(Dtype::kBFloat16), scored_on);
    if (alpha > run.final_alpha + kRise) best_epoch = epoch;
    run.final_alpha = std::max(run.final_alpha, alpha);
  }
  run.training_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.optimizer_steps = trainer.steps();
  return run;
}

}  // namespace

const std::vector<std::string>& recorded_arms() {
  static const std::vector<std::string> names = {"none", "paper", "paper-tuned", "offline-100", "ungated", "gated"};
  return names;
}

ArmRun run_recorded_arm(const std::string& name, const ArmSetting& setting, std::uint64_t seed) {
  RecordScorer scorer(setting.draft, setting.k);
  if (name == "offline-100") return train_offline(setting, scorer, seed);
  if (name == "paper-tuned") return serve_tuned_osd(setting, scorer);
  std::unique_ptr<Arm> arm;
  if (name == "none") arm = std::make_unique<NoLearning>(scorer.shared_base());
  if (name == "paper") arm = std::make_unique<Osd>(setting, OsdSetting{});
  if (name == "ungated") arm = std::make_unique<Ungated>(setting, scorer.shared_base(), seed);
  if (name == "gated") arm = std::make_unique<Gated>(setting, scorer.shared_base(), seed);
  if (!arm) throw Error(ErrorCode::kInvalidArgument, "there is no arm \"" + name + "\"", {}, "arms");
  return serve(setting, scorer, *arm);
}

}  // namespace slip::bench
