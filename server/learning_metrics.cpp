// SPDX-License-Identifier: Apache-2.0
#include "server/learning_metrics.h"

#include <algorithm>

#include "distill/learning_labels.h"

namespace slip {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

MetricFamily family(MetricType type, const std::string& name, const std::string& help) {
  return {"slipstream:" + name, help, type, {}};
}

void add(MetricFamily& family, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

struct TopicSeries {
  MetricType type;
  const char *name, *help;
  double (*value)(const TopicLearning& topic);
};

constexpr auto kCounter = MetricType::Counter;
constexpr auto kGauge = MetricType::Gauge;

// Metric families with one series per topic.
constexpr TopicSeries kTopicSeries[] = {
    {kCounter, "learning_requests_total", "Finished answers that reached the learner, by topic",
     [](const TopicLearning& t) { return static_cast<double>(t.requests); }},
    {kCounter, "learning_sampled_answers_total",
     "Further answers to their prompts that the target sampled for learning while it had nothing else to do",
     [](const TopicLearning& t) { return static_cast<double>(t.sampled_answers); }},
    {kGauge, "learning_records_waiting", "Finished answers that no draft was scored on yet; training waits for that",
     [](const TopicLearning& t) { return static_cast<double>(t.records_waiting); }},
    {kCounter, "learning_records_unscored_total", "Answers given up unscored because too many waited: lost evidence",
     [](const TopicLearning& t) { return static_cast<double>(t.records_unscored); }},
    {kCounter, "learning_optimizer_steps_total", "Optimizer steps taken; a topic with traffic and none does not learn",
     [](const TopicLearning& t) { return static_cast<double>(t.optimizer_steps); }},
    {kCounter, "learning_trainer_restarts_total", "Trainers begun anew after a failure or a rollback",
     [](const TopicLearning& t) { return static_cast<double>(t.trainer_restarts); }},
    {kCounter, "learning_training_seconds_total", "Seconds of the learner's thread spent on optimizer steps",
     [](const TopicLearning& t) { return t.training_s; }},
    {kCounter, "learning_scoring_seconds_total", "Seconds of the learner's thread spent on scoring drafts",
     [](const TopicLearning& t) { return t.scoring_s; }},
    {kGauge, "learning_loss_nats", "Training loss a row, smoothed over the latest steps; 0 before the first",
     [](const TopicLearning& t) { return t.loss; }},
    {kGauge, "learning_lag_seconds", "Age of the oldest answer that no optimizer step could draw from yet; 0 for none",
     [](const TopicLearning& t) { return t.lag_s; }},
    {kGauge, "learning_predicted_gain_ratio",
     "Gain of acceptance that the learning curve promised when it last trained",
     [](const TopicLearning& t) { return t.predicted_gain; }},
    {kGauge, "learning_realised_gain_ratio", "Gain of acceptance of this run's publications, measured before each",
     [](const TopicLearning& t) { return t.realised_gain; }},
};

MetricFamily topic_family(const TopicSeries& series, const std::vector<TopicLearning>& topics) {
  MetricFamily out = family(series.type, series.name, series.help);
  for (const auto& topic : topics) add(out, {{"topic", topic.topic}}, series.value(topic));
  return out;
}

MetricFamily acceptance_family(const std::vector<TopicLearning>& topics) {
  MetricFamily out = family(kGauge, "learning_acceptance_ratio",
                            "Share of tested draft tokens accepted, live and base draft scored on the same answers, "
                            "recent ones weighing more; absent until one was scored");
  for (const auto& topic : topics) {
    if (topic.alpha_live > 0) add(out, {{"scored", "live"}, {"topic", topic.topic}}, topic.alpha_live);
    if (topic.alpha_base > 0) add(out, {{"scored", "base"}, {"topic", topic.topic}}, topic.alpha_base);
  }
  return out;
}

MetricFamily state_family(const std::vector<TopicLearning>& topics) {
  MetricFamily out = family(kGauge, "learning_state",
                            "1 for what learning does now with a topic, 0 for the other states: training, waiting for "
                            "requests, flat (more steps would not pay), over_share (stands at learning.max_share), "
                            "paused (off or disk low), other");
  for (const auto& topic : topics) {
    const LearningState now = learning_state(topic.state);
    for (const auto state : kLearningStates) {
      add(out, {{"state", learning_state_name(state)}, {"topic", topic.topic}}, state == now ? 1 : 0);
    }
  }
  return out;
}

MetricFamily version_family(const std::vector<TopicLearning>& topics) {
  MetricFamily out = family(kGauge, "learning_live_version", "Draft version that serves a topic; 0 is the base draft");
  for (const auto& topic : topics) {
    add(out, {{"draft", topic.draft}, {"topic", topic.topic}}, static_cast<double>(topic.live_version));
  }
  return out;
}

MetricFamily single(const char* name, const char* help, double value, MetricType type = kGauge) {
  MetricFamily out = family(type, name, help);
  add(out, {}, value);
  return out;
}

}  // namespace

std::vector<MetricFamily> learning_families(const LearningFigures& figures, std::int64_t now_us) {
  std::vector<MetricFamily> out;
  for (const auto& series : kTopicSeries) out.push_back(topic_family(series, figures.topics));
  out.push_back(acceptance_family(figures.topics));
  out.push_back(state_family(figures.topics));
  out.push_back(version_family(figures.topics));
  out.push_back(
      single("learning_service_share_ratio",
             "Share of the service that learning cost over the last minute, 0 to 1; learning.max_share bounds "
             "it while requests wait",
             figures.share_of_service));
  out.push_back(single("learning_cost_tokens_per_second", "The same cost in tokens that were not served",
                       figures.cost_tokens_per_s));
  out.push_back(single("learning_records_untaken_total",
                       "Answers given up unscored because the learner got no time to take them in: lost evidence",
                       static_cast<double>(figures.records_untaken), kCounter));
  out.push_back(single("learning_report_age_seconds",
                       "Seconds since the learner last reported, about 1; more: it gets no processor time",
                       std::max(0.0, static_cast<double>(now_us - figures.at_us) / 1e6)));
  return out;
}

MemoryParts learning_memory(const LearningFigures& figures) {
  return {{"trainers", figures.trainer_bytes},
          {"scorers", figures.scorer_bytes},
          {"candidates", figures.candidate_bytes},
          {"learning_queues", figures.queue_bytes}};
}

std::vector<MetricFamily> memory_families(const MemoryParts& parts, std::uint64_t resident_bytes) {
  MetricFamily by_part = family(kGauge, "memory_bytes",
                                "Memory by the part that holds it; \"other\" is what the process holds beyond the "
                                "named parts, the allocator's free lists included");
  std::uint64_t named = 0;
  for (const auto& [part, bytes] : parts) {
    add(by_part, {{"part", part}}, static_cast<double>(bytes));
    named += bytes;
  }
  add(by_part, {{"part", "other"}}, static_cast<double>(resident_bytes - std::min(resident_bytes, named)));
  return {by_part,
          single("resident_memory_bytes", "Memory the process holds (RSS)", static_cast<double>(resident_bytes))};
}

}  // namespace slip
