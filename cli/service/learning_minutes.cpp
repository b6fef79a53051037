// SPDX-License-Identifier: Apache-2.0
#include "cli/service/learning_minutes.h"

#include <algorithm>

#include "distill/learning_log.h"

namespace slip::cli {
namespace {

const TopicLearning* find(const LearningFigures& figures, const std::string& topic) {
  const auto found = std::find_if(figures.topics.begin(), figures.topics.end(),
                                  [&](const TopicLearning& one) { return one.topic == topic; });
  return found == figures.topics.end() ? nullptr : &*found;
}

std::uint64_t grown(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

bool something_happened(const LearningRow& row) {
  return row.requests + row.records_unscored + row.optimizer_steps + row.trainer_restarts + row.published +
                 row.refused + row.rolled_back + row.records_waiting >
             0 ||
         row.training_s > 0 || row.scoring_s > 0;
}

}  // namespace

LearningRow learning_row(const LearningFigures& before, const LearningFigures& now, const TopicLearning& topic,
                         int cores) {
  static const TopicLearning nothing;
  const TopicLearning* found = find(before, topic.topic);
  const TopicLearning& was = found == nullptr ? nothing : *found;
  LearningRow row;
  row.at_us = now.at_us;
  row.topic = topic.topic;
  row.draft = topic.draft;
  row.version = topic.live_version;
  row.covered_s = std::max(0.0, now.running_s - before.running_s);
  row.cores = cores;
  row.requests = grown(topic.requests, was.requests);
  row.records_unscored = grown(topic.records_unscored, was.records_unscored);
  row.optimizer_steps = grown(topic.optimizer_steps, was.optimizer_steps);
  row.trainer_restarts = grown(topic.trainer_restarts, was.trainer_restarts);
  row.published = grown(topic.published, was.published);
  row.refused = grown(topic.refused, was.refused);
  row.rolled_back = grown(topic.rolled_back, was.rolled_back);
  row.training_s = std::max(0.0, topic.training_s - was.training_s);
  row.scoring_s = std::max(0.0, topic.scoring_s - was.scoring_s);
  row.realised_gain = topic.realised_gain - was.realised_gain;
  row.records_waiting = topic.records_waiting;
  row.loss = topic.loss;
  row.lag_s = topic.lag_s;
  row.alpha_live = topic.alpha_live;
  row.alpha_base = topic.alpha_base;
  row.predicted_gain = topic.predicted_gain;
  row.share_of_service = now.share_of_service;
  row.cost_tokens_per_s = now.cost_tokens_per_s;
  row.state = topic.state;
  row.last_refusal = topic.last_refusal;
  return row;
}

std::optional<LearningMinutes::Minute> LearningMinutes::add(const LearningFigures& figures) {
  latest_ = figures;
  if (figures.running_s - before_.running_s < kMinuteS) return std::nullopt;
  return close();
}

LearningMinutes::Minute LearningMinutes::close() {
  Minute minute;
  for (const auto& topic : latest_.topics) {
    LearningRow row = learning_row(before_, latest_, topic, cores_);
    if (something_happened(row)) minute.rows.push_back(std::move(row));
  }
  minute.line = learning_line(before_, latest_);
  before_ = latest_;
  return minute;
}

}  // namespace slip::cli
