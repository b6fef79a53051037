// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_labels.h"

#include <utility>

namespace slip {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The first entry that a text contains decides, so more specific entries come first.
constexpr std::pair<std::string_view, const char*> kReasons[] = {
    {"not exported", "not_finite"},
    {"not finite", "not_finite"},
    {"not a number", "not_finite"},
    {"not published", "not_written"},
    {"held-out text", "worse_on_heldout"},
    {"than the base", "below_base"},
    {"worse", "worse"},
    {"below margin", "not_better"},
    {"too few", "undecided"},
    {"not enough evidence", "undecided"},
    {"better", "better"},
};

constexpr std::pair<std::string_view, LearningState> kStates[] = {
    {"flat", LearningState::kFlat},         {"max_share", LearningState::kOverShare},
    {"disk", LearningState::kPaused},       {"is off", LearningState::kPaused},
    {"paused", LearningState::kPaused},     {"waits", LearningState::kWaiting},
    {"training", LearningState::kTraining},
};

}  // namespace

LearningState learning_state(std::string_view text) {
  for (const auto& [part, state] : kStates) {
    if (has(text, part)) return state;
  }
  return LearningState::kOther;
}

const char* learning_state_name(LearningState state) {
  switch (state) {
    case LearningState::kTraining:
      return "training";
    case LearningState::kWaiting:
      return "waiting";
    case LearningState::kFlat:
      return "flat";
    case LearningState::kOverShare:
      return "over_share";
    case LearningState::kPaused:
      return "paused";
    case LearningState::kOther:
      break;
  }
  return "other";
}

const char* decision_reason(std::string_view text) {
  for (const auto& [part, name] : kReasons) {
    if (has(text, part)) return name;
  }
  return "other";
}

}  // namespace slip
