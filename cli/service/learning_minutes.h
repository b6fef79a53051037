// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distill/learning_figures.h"
#include "ledger/rows.h"

namespace slip::cli {

// Turns the learner's running totals, reported about once a second, into a ledger row a topic and a log line a minute.
// One owner.
class LearningMinutes {
 public:
  static constexpr double kMinuteS = 60;

  struct Minute {
    std::vector<LearningRow> rows;  // of the topics in which something happened or an answer waits
    std::string line;               // empty when nothing happened
  };

  // `cores` the process may use.
  explicit LearningMinutes(int cores) : cores_(cores) {}
  // What the minute held that `figures` ended; nothing while it goes on.
  std::optional<Minute> add(const LearningFigures& figures);
  // The minute that is not over, for shutdown.
  Minute close();

 private:
  int cores_;
  LearningFigures before_, latest_;  // at the minute's begin, and the newest
};

// What happened to a topic between two reports. Counts never fall, whatever the reports say.
LearningRow learning_row(const LearningFigures& before, const LearningFigures& now, const TopicLearning& topic,
                         int cores);

}  // namespace slip::cli
