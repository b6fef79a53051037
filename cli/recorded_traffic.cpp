// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_traffic.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cli/simulation/request_alphas.h"
#include "common/error.h"
#include "engine/request.h"
#include "ledger/figures.h"
#include "ledger/sheet.h"

namespace slip::cli {
namespace {

// The file may come from anywhere, so its numbers are limited.
std::int32_t limited(const SheetRow& row, const char* column, std::int32_t most = 1 << 20) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(row.integer(column), 0, most));
}

// The targets that a row of the view `recent_requests` asked for, as the server limits them. Those of a request that
// was cancelled or failed count neither as met nor as missed.
SloTargets recorded_targets(const SheetRow& row) {
  const std::string reason = row.text("stop_reason");
  if (reason == stop_reason_name(StopReason::kCancelled) || reason == stop_reason_name(StopReason::kFailed)) return {};
  constexpr double kMostMs = 3.6e6;
  const auto us = [&](const char* column) {
    return us_of_ms(std::clamp(row.number(column).value_or(0), 0.0, kMostMs));
  };
  return {.tpot_us = us("slo_tpot_ms"), .ttft_us = us("slo_ttft_ms"), .e2e_us = us("slo_e2e_ms")};
}

// A row of the view `recent_requests`, without its topic; empty if nothing was answered.
std::optional<Arrival> recorded_arrival(const SheetRow& row) {
  Arrival request{.max_tokens = limited(row, "output_tokens"), .prompt_tokens = limited(row, "prompt_tokens")};
  if (request.max_tokens == 0 || request.prompt_tokens == 0) return std::nullopt;
  request.cached_tokens = limited(row, "cached_tokens", request.prompt_tokens - 1);
  request.at_s = 1e-6 * static_cast<double>(row.integer("finished_us")) - 1e-3 * row.number("total_ms").value_or(0);
  request.slo = recorded_targets(row);
  return request;
}

// The α of each draft version's chains that begin in every step of the answers, by draft and version: learning scores
// its drafts so.
using ScoredVersions = std::map<std::pair<std::string, std::uint64_t>, double>;

ScoredVersions scored_versions(const LedgerReader& ledger) {
  ScoredVersions scored;
  const Sheet sheet = ledger.view("version_gain");
  for (std::size_t i = 0; i < sheet.rows.size(); ++i) {
    const SheetRow row(sheet, i);
    const auto alpha = row.number("alpha_same_text");
    if (alpha) scored[{row.text("draft"), static_cast<std::uint64_t>(row.integer("version"))}] = *alpha;
  }
  return scored;
}

// A topic's kind of request. Its α is that of the steps in which its service proposed: almost all with a fixed length,
// and with a planner those that it chose. Of all steps only the scores know α then.
SimulatedTopic recorded_topic(const TopicFigures& figures, const ScoredVersions& scored) {
  SimulatedTopic topic{.name = figures.topic,
                       .alpha = figures.recent_alpha.value_or(figures.alpha.value_or(0)),
                       .share = 0,
                       .drafted_share = std::clamp(figures.drafted_share.value_or(1), 0.0, 1.0)};
  if (topic.drafted_share >= kFixedDraftedShare) return topic;
  const auto version = scored.find({figures.draft, figures.version});
  topic.alpha_of_all_steps = version == scored.end() ? figures.alpha_same_text : version->second;
  return topic;
}

// The replayed requests of a topic.
struct TopicRequests {
  std::vector<std::size_t> indices;
  std::vector<TestedTokens> tested;
  bool same_draft = true;  // all were answered by the topic's newest version
};

bool is_of_version(const SheetRow& row, const TopicFigures& topic) {
  const auto version = static_cast<std::int64_t>(topic.version);
  return row.text("draft") == topic.draft && row.integer("first_version") == version &&
         row.integer("last_version") == version;
}

TestedTokens tested_tokens(const SheetRow& row) {
  const std::int32_t accepted = limited(row, "accepted");
  return {accepted + limited(row, "first_rejections"), accepted};
}

void give_alphas(const TopicRequests& requests, SimulatedTopic& topic, std::vector<Arrival>& arrivals) {
  const RequestAlphas alphas = request_alphas(requests.tested);
  if (alphas.all == 0) return;
  topic.alpha = alphas.all;
  for (std::size_t i = 0; i < requests.indices.size(); ++i) arrivals[requests.indices[i]].alpha = alphas.each[i];
}

}  // namespace

RecordedTraffic recorded_traffic(const std::string& file) {
  constexpr int kMostRecorded = 10'000;  // the newest
  const LedgerReader ledger(file, {});
  RecordedTraffic traffic;
  std::map<std::string, std::size_t> index_of;
  const std::vector<TopicFigures> figures = topic_figures(ledger);
  const ScoredVersions scored = scored_versions(ledger);
  for (const TopicFigures& topic : figures) {
    index_of[topic.topic] = traffic.topics.size();
    traffic.topics.push_back(recorded_topic(topic, scored));
  }
  std::vector<TopicRequests> by_topic(figures.size());
  const Sheet sheet = ledger.view("recent_requests", kMostRecorded);
  for (std::size_t i = sheet.rows.size(); i-- > 0;) {
    const SheetRow row(sheet, i);
    const auto topic = index_of.find(row.text("topic"));
    if (topic == index_of.end()) continue;
    auto request = recorded_arrival(row);
    if (!request) continue;
    TopicRequests& others = by_topic[topic->second];
    others.indices.push_back(traffic.requests.size());
    others.tested.push_back(tested_tokens(row));
    others.same_draft = others.same_draft && is_of_version(row, figures[topic->second]);
    request->topic = static_cast<std::int32_t>(topic->second);
    traffic.requests.push_back(*request);
    ++traffic.topics[topic->second].share;  // for arrivals of a trace
  }
  for (std::size_t i = 0; i < by_topic.size(); ++i) {
    if (by_topic[i].same_draft) give_alphas(by_topic[i], traffic.topics[i], traffic.requests);
  }
  if (traffic.requests.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--ledger: " + file + " has no answered requests");
  }
  return traffic;
}

}  // namespace slip::cli
