// SPDX-License-Identifier: Apache-2.0
#include "bench/adapt/adapt_replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "common/error.h"
#include "distill/replay/replay_buffer.h"
#include "engine/sampling/random.h"

namespace slip::bench {
namespace {

// Keeps a row's `k` most likely tokens; the mass of the others is added to the tail.
void keep_top(TopK& row, std::size_t k) {
  if (row.ids.size() <= k) return;
  double tail = std::exp(static_cast<double>(row.log_tail));
  for (std::size_t i = k; i < row.logprobs.size(); ++i) tail += std::exp(static_cast<double>(row.logprobs[i]));
  row.ids.resize(k);
  row.logprobs.resize(k);
  row.log_tail = static_cast<float>(std::log(tail));
}

}  // namespace

std::vector<ReplayRecord> read_recorded(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw Error(ErrorCode::kNotFound, "there is no replay folder " + folder.string(),
                "pass <data directory>/replay of a service that recorded");
  }
  ReplayOptions options;
  options.folder = folder;
  options.ttl_us = std::numeric_limits<std::int64_t>::max() / 4;
  const ReplayBuffer buffer(options);
  std::vector<ReplayRecord> records;
  for (const std::string& topic : buffer.topics()) {
    const std::size_t n = buffer.records(topic);
    auto trained = buffer.sample(topic, n, /*seed=*/0, /*draw=*/0), heldout = buffer.heldout(topic, n);
    std::move(trained.begin(), trained.end(), std::back_inserter(records));
    std::move(heldout.begin(), heldout.end(), std::back_inserter(records));
  }
  if (records.empty()) {
    throw Error(ErrorCode::kNotFound, "no records in " + folder.string(),
                "pass the `replay` folder inside what --record wrote, or inside a data directory");
  }
  std::sort(records.begin(), records.end(),
            [](const ReplayRecord& a, const ReplayRecord& b) { return a.sequence < b.sequence; });
  return records;
}

std::span<const std::int32_t> prompt_of(const ReplayRecord& record) {
  return std::span(record.tokens).first(static_cast<std::size_t>(record.prompt_tokens));
}

SampledAnswers::SampledAnswers(std::vector<ReplayRecord> records) {
  for (ReplayRecord& record : records) {
    const auto prompt = prompt_of(record);
    auto& answers = answers_[{prompt.begin(), prompt.end()}];
    answers.push_back(std::move(record));
    most_ = std::max(most_, answers.size());
  }
}

const std::vector<ReplayRecord>& SampledAnswers::to(std::span<const std::int32_t> prompt) const {
  static const std::vector<ReplayRecord> none;
  const auto found = answers_.find({prompt.begin(), prompt.end()});
  return found == answers_.end() ? none : found->second;
}

RecordScorer::RecordScorer(const std::filesystem::path& base_folder, int k, bool prompt_lookup)
    : base_(ModelWeights::load(base_folder, Dtype::kBFloat16)),
      scorer_(base_->config, base_->config.max_positions, pool_, prompt_lookup),
      k_(k) {}

double RecordScorer::alpha(const ModelWeights& draft, const std::vector<ReplayRecord>& records) {
  AcceptanceScore sum;
  for (const ReplayRecord& record : records) {
    const AcceptanceScore one = score(draft, record);
    sum.accepted += one.accepted;
    sum.first_rejections += one.first_rejections;
  }
  return sum.alpha();
}

OnlineSetting parse_online_setting(const std::string& text) {
  OnlineSetting setting;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto number = [&] {
      std::istringstream in(value);
      double result = 0;
      if (!(in >> result)) throw Error(ErrorCode::kInvalidArgument, key + " needs a number", {}, "setting");
      return result;
    };
    TrainerOptions& trainer = setting.trainer;
    if (key == "optimizer")
      trainer.optimizer = parse_optimizer(value);
    else if (key == "loss")
      trainer.loss.kind = parse_loss(value);
    else if (key == "lr")
      trainer.learning_rate = number();
    else if (key == "matrix_lr")
      trainer.matrix_learning_rate = number();
    else if (key == "average")
      trainer.average_decay = number();
    else if (key == "decay")
      trainer.weight_decay = number();
    else if (key == "clip")
      trainer.max_grad_norm = number();
    else if (key == "warmup")
      trainer.warmup_steps = static_cast<std::int64_t>(number());
    else if (key == "beta2")
      trainer.beta2 = number();
    else if (key == "by_loss")
      trainer.scale_by_loss = number() != 0;
    else if (key == "prompts")
      trainer.through_prompts = number() != 0;
    else if (key == "skip_looked_up")
      trainer.skip_looked_up = number() != 0;
    else if (key == "products")
      trainer.products = value == "bf16" ? Dtype::kBFloat16 : Dtype::kFloat32;
    else if (key == "batch")
      setting.batch = static_cast<std::size_t>(number());
    else if (key == "steps")
      setting.steps_per_request = number();
    else if (key == "half")
      setting.steps_half = number();
    else if (key == "recency")
      setting.recency_half_life = number();
    else if (key == "fresh")
      setting.fresh_share = number();
    else if (key == "top_k")
      setting.top_k = static_cast<std::size_t>(number());
    else
      throw Error(ErrorCode::kInvalidArgument, "unknown key \"" + key + "\"", kOnlineSettingHelp, "setting");
  }
  return setting;
}

OnlineTraining::OnlineTraining(const std::filesystem::path& base_folder, const OnlineSetting& setting,
                               std::uint64_t seed)
    : setting_(setting), seed_(seed), trainer_(base_folder, setting.trainer) {}

void OnlineTraining::take(const ReplayRecord& record) {
  seen_.push_back(record);
  for (TopK& row : seen_.back().target) keep_top(row, setting_.top_k);
  const auto n = static_cast<double>(seen_.size());
  due_ += setting_.steps_per_request / (setting_.steps_half > 0 ? 1 + n / setting_.steps_half : 1);
  if (seen_.size() < kFirstBatches * setting_.batch) return;
  while (static_cast<double>(trainer_.steps()) + 1 <= due_) {
    const auto batch = draw();
    const auto start = std::chrono::steady_clock::now();
    const TrainStep step = trainer_.step(batch);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (step.skipped) due_ -= 1;
  }
}

// Draws without replacement, with weights that halve with age.
std::vector<ReplayRecord> OnlineTraining::draw() {
  std::set<std::size_t> chosen;
  const auto fresh = static_cast<std::size_t>(setting_.fresh_share * static_cast<double>(setting_.batch));
  for (std::size_t i = 0; i < std::min(fresh, seen_.size()); ++i) chosen.insert(seen_.size() - 1 - i);
  for (std::uint32_t attempt = 0; chosen.size() < std::min(setting_.batch, seen_.size()); ++attempt) {
    const RandomAddress address{seed_, draws_, attempt};
    const auto age =
        static_cast<std::size_t>(uniform(address, RandomPurpose::kDraft, 0) * static_cast<double>(seen_.size()));
    const double weight = std::exp2(-static_cast<double>(age) / setting_.recency_half_life);
    if (uniform(address, RandomPurpose::kDraft, 1) < weight) chosen.insert(seen_.size() - 1 - age);
  }
  ++draws_;
  std::vector<ReplayRecord> batch;
  for (const std::size_t i : chosen) batch.push_back(seen_[i]);
  return batch;
}

}  // namespace slip::bench
