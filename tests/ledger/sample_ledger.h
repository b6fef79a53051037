// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "ledger/ledger.h"

namespace slip {

inline constexpr std::int64_t kSampleStartUs = 1'763'719'200'000'000;  // 2025-11-21 10:00:00 UTC
inline constexpr std::int64_t kSecondUs = 1'000'000;

// Uses a file system in memory if there is one: these tests kill processes, not machines, and hundreds of real fsyncs
// take long.
inline std::filesystem::path quick_temporary_folder() {
  const std::filesystem::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

// A private directory that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (quick_temporary_folder() / "slipstream-ledger-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline LedgerOptions options_for(const std::filesystem::path& file) {
  LedgerOptions options;
  options.file = file;
  options.commit_interval_us = 20'000;
  options.keep_requests_us = std::int64_t{100} * 365 * 24 * 3600 * kSecondUs;  // the samples are years old
  return options;
}

inline RequestRow sample_request(const std::string& topic, std::int64_t at_us, int accepted, int first_rejections) {
  RequestRow row;
  row.finished_us = at_us;
  row.topic = row.draft = topic;
  row.rule = "greedy";
  row.stop_reason = "stop_token";
  row.prompt_tokens = 24;
  row.accepted = accepted;
  row.first_rejections = first_rejections;
  row.steps = first_rejections + accepted / 3 + 1;
  row.output_tokens = row.steps + accepted;
  row.proposed = 3 * row.steps;
  row.ttft_ms = 21.5;
  row.tpot_ms = 7.25;
  row.total_ms = 7.25 * row.output_tokens;
  row.tested = {{.reached = accepted + first_rejections, .accepted = accepted}};
  return row;
}

inline SameTextRow sample_score(const RequestRow& request, double live, double base, double tested = 40) {
  SameTextRow row;
  row.request_id = request.request_id;
  row.at_us = request.finished_us;
  row.topic = request.topic;
  row.draft = request.draft;
  row.version = request.last_version;
  row.tokens = 60;
  row.live_accepted = live * tested;
  row.live_first_rejections = (1 - live) * tested;
  row.live_steps = 60 / (1 + 2 * live);
  row.base_accepted = base * tested;
  row.base_first_rejections = (1 - base) * tested;
  row.base_steps = 60 / (1 + 2 * base);
  return row;
}

// One topic that learns: `n` requests, every `spacing_us`, α rising from `from` to `to`; a version every 12 requests.
struct SampleTopic {
  std::string name;
  int n = 60;
  double from = 0.45, to = 0.7;
  std::int64_t start_us = kSampleStartUs;
  std::int64_t spacing_us = 4 * kSecondUs;
};

inline void record_topic(Ledger& ledger, const SampleTopic& topic, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.06);
  std::uint64_t version = 0;
  for (int i = 0; i < topic.n; ++i) {
    const double share = 1 - std::exp(-3.0 * i / topic.n);
    const std::int64_t at = topic.start_us + i * topic.spacing_us;
    if (i > 0 && i % 12 == 0) {
      const bool refused = i % 36 == 0;
      CanaryRow decision;
      decision.at_us = at;
      decision.topic = decision.draft = topic.name;
      decision.kind = refused ? "refuse" : "publish";
      decision.reason = refused ? "gain +.00 [-.01, +.01], below margin" : "gain +.05 [+.02, +.08], p .003";
      decision.live_version = version;
      decision.candidate_version = refused ? 0 : version + 1;
      decision.alpha_live = 0.5;
      decision.alpha_candidate = 0.55;
      decision.gain = refused ? 0.001 : 0.05;
      decision.p_value = refused ? 0.4 : 0.003;
      ledger.record(decision);
      if (!refused) {
        version += 1;
        ledger.record(DraftVersionRow{topic.name, topic.name, "canary", std::string(64, 'a'), version, version - 1, at,
                                      0.5, 0.55, 0.003, version * 40, version * 12,
                                      version == 1 ? "base" : topic.name});
      }
    }
    const double easy = noise(random);
    const double live = std::clamp(topic.from + (topic.to - topic.from) * share + easy + noise(random) / 3, 0.02, 0.98);
    const double base = std::clamp(topic.from + easy, 0.02, 0.98);
    RequestRow row = sample_request(topic.name, at, static_cast<int>(40 * live), 40 - static_cast<int>(40 * live));
    row.request_id = static_cast<std::uint64_t>(i) + 1;
    row.first_version = row.last_version = version;
    ledger.record(row);
    ledger.record(sample_score(row, live, base));
  }
}

// A minute of learning; `minute` counts from the samples' start.
inline LearningRow sample_learning(const std::string& topic, int minute, std::uint64_t steps) {
  LearningRow row;
  row.at_us = kSampleStartUs + (minute + 1) * 60 * kSecondUs;
  row.topic = row.draft = topic;
  row.version = static_cast<std::uint64_t>(minute);
  row.covered_s = 60;
  row.cores = 2;
  row.requests = 15;
  row.optimizer_steps = steps;
  row.training_s = 0.1 * static_cast<double>(steps);
  row.scoring_s = 0.6;
  row.loss = steps > 0 ? 1.5 - 0.1 * minute : 0;
  row.lag_s = steps > 0 ? 2 : 60;
  row.records_waiting = steps > 0 ? 1 : 7;
  row.alpha_live = 0.4 + 0.05 * minute;
  row.alpha_base = 0.4;
  row.predicted_gain = 0.02;
  row.realised_gain = minute > 0 ? 0.05 : 0;
  row.published = minute > 0 ? 1 : 0;
  row.share_of_service = 0.08;
  row.cost_tokens_per_s = 6.5;
  row.state = steps > 0 ? "training" : "over max_share";
  return row;
}

// Four topics one after the other, and then again, as in the demo.
inline void record_sample_story(Ledger& ledger) {
  unsigned seed = 1;
  for (const auto& [name, to] :
       {std::pair<std::string, double>{"code", 0.62}, {"lang", 0.5}, {"math", 0.66}, {"sql", 0.78}}) {
    record_topic(ledger, {name, 60, 0.46, to, kSampleStartUs + seed * 20 * kSecondUs}, seed);
    ++seed;
  }
  CanaryRow back;
  back.at_us = kSampleStartUs + 250 * kSecondUs;
  back.topic = back.draft = "lang";
  back.kind = "rollback";
  back.reason = "loss -.04 [-.07, -.01] against v2";
  back.live_version = 3;
  back.candidate_version = 2;
  ledger.record(back);
  ledger.record(DriftEventRow{kSampleStartUs + 200 * kSecondUs, "math", "math",
                              "acceptance fell from 0.62 to 0.48 over 14 requests (greedy, temperature 0)", 3, 0.62,
                              0.48});
  ledger.record(sample_request("unknown", kSampleStartUs + 90 * kSecondUs, 12, 20));
}

}  // namespace slip
