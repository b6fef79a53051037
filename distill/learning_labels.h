// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace slip {

// Maps the free texts of learning to a fixed set of metric labels, so that a label does not take a new value for every
// sentence. Pure; any thread.
enum class LearningState : std::uint8_t { kTraining, kWaiting, kFlat, kOverShare, kPaused, kOther };
inline constexpr std::array<LearningState, 6> kLearningStates = {LearningState::kTraining, LearningState::kWaiting,
                                                                 LearningState::kFlat,     LearningState::kOverShare,
                                                                 LearningState::kPaused,   LearningState::kOther};

// Maps TopicLearning::state by the first of these that it contains: "flat", "max_share", "disk", "is off", "paused",
// "waits", "training".
LearningState learning_state(std::string_view text);
const char* learning_state_name(LearningState state);  // "training", "waiting", "flat", "over_share", …

// Maps CanaryVerdict::reason to "better", "not_better", "worse", "below_base", "superseded", "not_finite",
// "not_written", "undecided" or "other".
const char* decision_reason(std::string_view text);

}  // namespace slip
