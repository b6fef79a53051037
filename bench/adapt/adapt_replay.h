// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distill/canary/draft_scorer.h"
#include "distill/learner.h"
#include "distill/trainer/draft_trainer.h"

namespace slip::bench {

// Read every record of a service's replay folder, oldest first; greedy records keep their sampling settings.
// Error{kNotFound}.
std::vector<ReplayRecord> read_recorded(const std::filesystem::path& folder);

// Further answers of the target to the streamed prompts, sampled beforehand. Threads: any, to read.
class SampledAnswers {
 public:
  SampledAnswers() = default;
  explicit SampledAnswers(std::vector<ReplayRecord> records);

  // Those to the record's prompt, in the order they were sampled; empty: none.
  const std::vector<ReplayRecord>& to(std::span<const std::int32_t> prompt) const;
  std::size_t most() const { return most_; }  // to one prompt

 private:
  std::map<std::vector<std::int32_t>, std::vector<ReplayRecord>> answers_;  // by prompt
  std::size_t most_ = 0;
};
std::span<const std::int32_t> prompt_of(const ReplayRecord& record);

// Scores drafts on records, counting acceptance as serving would. Threads: one owner.
class RecordScorer {
 public:
  // `prompt_lookup`: include the guesses that serving adds to the draft's.
  RecordScorer(const std::filesystem::path& base_folder, int k, bool prompt_lookup = false);

  AcceptanceScore score(const ModelWeights& draft, const ReplayRecord& record) {
    return scorer_.score(draft, record, k_);
  }
  double alpha(const ModelWeights& draft, const std::vector<ReplayRecord>& records);
  const ModelWeights& base() const { return *base_; }
  std::shared_ptr<const ModelWeights> shared_base() const { return base_; }

 private:
  std::shared_ptr<const ModelWeights> base_;
  kernels::ThreadPool pool_{1};
  DraftScorer scorer_;
  int k_;
};

// Settings of training on a stream as it arrives. The defaults are the service's trainer with half the optimizer steps
// of an idle service.
struct OnlineSetting {
  TrainerOptions trainer = LearnerOptions{}.trainer;
  std::size_t batch = 8;         // records per optimizer step
  double steps_per_request = 1;  // at first
  double steps_half = 0;         // requests after which the steps per request have halved (as 1/(1 + n/half)); 0: never
  double recency_half_life = 2000;  // in requests, of a record's sampling weight
  double fresh_share = 0;           // share of a batch: the newest records; the others are sampled
  std::size_t top_k = 32;           // the target's most likely tokens kept per row
};
inline constexpr const char* kOnlineSettingHelp =
    "Blank-separated key=value, repeatable, over the service's defaults: optimizer, lr, matrix_lr, batch, steps, half, "
    "average, loss, decay, recency, fresh, top_k, clip, warmup, by_loss, prompts, "
    "skip_looked_up, products";
OnlineSetting parse_online_setting(const std::string& text);  // Error{kInvalidArgument} naming the key

// Continual training of one draft on one topic's stream; deterministic for a seed. Threads: one owner.
class OnlineTraining {
 public:
  OnlineTraining(const std::filesystem::path& base_folder, const OnlineSetting& setting, std::uint64_t seed);

  // Adds a finished request, and trains the steps that are due.
  void take(const ReplayRecord& record);
  std::shared_ptr<const ModelWeights> weights() const { return trainer_.weights(Dtype::kBFloat16); }
  std::int64_t steps() const { return trainer_.steps(); }
  double seconds() const { return seconds_; }  // spent in optimizer steps

 private:
  std::vector<ReplayRecord> draw();

  OnlineSetting setting_;
  std::uint64_t seed_;
  DraftTrainer trainer_;
  std::vector<ReplayRecord> seen_;
  double due_ = 0, seconds_ = 0;  // steps due so far
  std::uint32_t draws_ = 0;
};

}  // namespace slip::bench
