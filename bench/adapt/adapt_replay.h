// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distill/canary/draft_scorer.h"
#include "distill/learner.h"
#include "distill/trainer/draft_trainer.h"

namespace slip::bench {

// Every record of a service's replay folder, oldest first, with greedy records' sampling as it was. Error{kNotFound}.
std::vector<ReplayRecord> read_recorded(const std::filesystem::path& folder);

// Scores drafts on records as serving would have counted them. Threads: one owner.
class RecordScorer {
 public:
  // `prompt_lookup`: with the guesses that serving mixes in, or the drafts alone.
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

// How a draft is trained on the stream as it comes: by default with the service's trainer, and half the optimizer steps
// that an idle service takes.
struct OnlineSetting {
  TrainerOptions trainer = LearnerOptions{}.trainer;
  std::size_t batch = 8;         // records an optimizer step
  double steps_per_request = 1;  // at first
  double steps_half = 0;         // requests after which the steps per request have halved (as 1/(1 + n/half)); 0: never
  double recency_half_life = 2000;  // in requests, of the weight a record is drawn with
  double fresh_share = 0;           // of a batch: the newest records, the rest drawn
  std::size_t top_k = 32;           // likeliest tokens of the target that are kept of each row
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

  // Takes in a finished request, and trains as many steps as the setting allows by now.
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
