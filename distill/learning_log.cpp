// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/counted.h"
#include "distill/learning_labels.h"

namespace slip {
namespace {

constexpr std::size_t kMostTopics = 8;  // in one line

std::string fixed(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

TopicLearning topic_before(const LearningFigures& before, const std::string& topic) {
  const auto found = std::find_if(before.topics.begin(), before.topics.end(),
                                  [&](const TopicLearning& one) { return one.topic == topic; });
  return found == before.topics.end() ? TopicLearning{} : *found;
}

void append_count(std::string& line, std::uint64_t n, const char* what) {
  if (n > 0) line += ", " + std::to_string(n) + " " + what;
}

std::uint64_t grown(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

// Empty when nothing happened.
std::string topic_part(const TopicLearning& before, const TopicLearning& now) {
  const std::uint64_t steps = grown(now.optimizer_steps, before.optimizer_steps);
  const std::uint64_t requests = grown(now.requests, before.requests);
  const std::uint64_t published = grown(now.published, before.published);
  const std::uint64_t refused = grown(now.refused, before.refused);
  const std::uint64_t rolled_back = grown(now.rolled_back, before.rolled_back);
  if (steps + requests + published + refused + rolled_back == 0) return "";
  std::string part = now.topic + " " + counted(requests, "request") + ", " + counted(steps, "step");
  if (steps > 0) {
    part += " in " + fixed(now.training_s - before.training_s, 1) + " s, loss " + fixed(now.loss, 3);
  }
  if (now.alpha_live > 0) part += ", α " + fixed(now.alpha_live, 3) + " (base " + fixed(now.alpha_base, 3) + ")";
  append_count(part, published, "published");
  append_count(part, refused, "refused");
  if (refused > 0 && !now.last_refusal.empty()) part += " (" + now.last_refusal + ")";
  append_count(part, rolled_back, "rolled back");
  append_count(part, now.records_waiting, "waiting");
  return now.state.empty() ? part : part + ", " + now.state;
}

struct Cause {
  std::string why, remedy;
};

Cause cause_of(const TopicLearning& topic) {
  switch (learning_state(topic.state)) {
    case LearningState::kOverShare:
      return {"learning stands at learning.max_share while requests wait",
              "raise learning.max_share or give the service more cores"};
    case LearningState::kTraining:
      return {"its trainer may run, but its thread gets no processor time",
              "give the process another core, or look at its CPU limit"};
    case LearningState::kWaiting:
      if (topic.records_waiting > 0) break;
      return {"too few of its answers may be learned from",
              "see whether clients send \"store\": false or X-Slipstream-Learn: off, or lower learning.batch_requests"};
    default:
      break;
  }
  if (topic.records_waiting > 0) {
    return {std::to_string(topic.records_waiting) + " answers wait to be scored",
            "give the process another core, or look at its CPU limit"};
  }
  return {topic.state.empty() ? "the learner gives no reason" : topic.state,
          "see `slipstream report learning --topic " + topic.topic + "`"};
}

bool is_meant(const TopicLearning& topic) {
  const LearningState state = learning_state(topic.state);
  return state == LearningState::kFlat || state == LearningState::kPaused;
}

}  // namespace

std::string learning_line(const LearningFigures& before, const LearningFigures& now) {
  std::vector<std::string> parts;
  for (const auto& topic : now.topics) {
    std::string part = topic_part(topic_before(before, topic.topic), topic);
    if (!part.empty()) parts.push_back(std::move(part));
  }
  if (parts.empty()) return "";
  std::string line = "learning:";
  for (std::size_t i = 0; i < std::min(parts.size(), kMostTopics); ++i) line += (i == 0 ? " " : "; ") + parts[i];
  if (parts.size() > kMostTopics) line += "; and " + std::to_string(parts.size() - kMostTopics) + " topics more";
  return line + "; cost " + fixed(now.share_of_service * 100, 1) + " % of the service, " +
         fixed(now.cost_tokens_per_s, 1) + " tokens/s";
}

std::vector<std::string> starved_warnings(StarvedSpells& spells, const LearningFigures& now, double after_s) {
  std::vector<std::string> warnings;
  for (const auto& topic : now.topics) {
    StarvedSpell& spell = spells[topic.topic];
    if (topic.optimizer_steps != spell.steps || topic.requests < spell.requests || is_meant(topic)) {
      spell = {now.running_s, topic.requests, topic.optimizer_steps};
      continue;
    }
    const std::uint64_t requests = topic.requests - spell.requests;
    if (!spell.open) {
      spell.since_s = now.running_s;
      spell.open = requests > 0;
    }
    const double seconds = now.running_s - spell.since_s;
    if (spell.warned || requests < kStarvedRequests || seconds < after_s) continue;
    spell.warned = true;
    const auto [why, remedy] = cause_of(topic);
    warnings.push_back("learning: topic " + topic.topic + " had " + std::to_string(requests) + " requests in " +
                       fixed(seconds / 60, 0) + " minutes and took no optimizer step: " + why + "; " + remedy);
  }
  return warnings;
}

}  // namespace slip
