// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distill/learning_figures.h"
#include "ledger/rows.h"

namespace slip::cli {

// Turns the learner's running totals, reported about once a second, into one ledger row per topic and one log line per
// minute. One owner.
class LearningMinutes {
 public:
  static constexpr double kMinuteS = 60;

  struct Minute {
    std::vector<LearningRow> rows;  // of topics with activity or a waiting answer
    std::string line;               // empty without activity
  };

  // `cores`: those that the process may use.
  explicit LearningMinutes(int cores) : cores_(cores) {}
  // The minute that ended with `figures`; nullopt while it continues.
  std::optional<Minute> add(const LearningFigures& figures);
  // The unfinished minute, for shutdown.
  Minute close();

 private:
  int cores_;
  LearningFigures before_, latest_;  // at the minute's begin, and the newest
};

// A topic's activity between two reports. Counts never decrease, whatever the reports say.
LearningRow learning_row(const LearningFigures& before, const LearningFigures& now, const TopicLearning& topic,
                         int cores);

}  // namespace slip::cli
