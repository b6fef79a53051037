// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distill/replay/replay_buffer.h"
#include "engine/speculative/lookup/past_answers.h"
#include "router/topic.h"

namespace slip {

// Adds the newest answers to clients of each topic in replay to past answers, so that a service guesses as well after a
// restart as before. Skips what has expired at `now_us` (wall clock), and what is not of this vocabulary, since files
// are untrusted. Returns the number of answers. Cost: one read of at most 512 records a topic.
std::size_t refill_past_answers(const ReplayBuffer& replay, const TopicTable& topics, std::int32_t vocab_size,
                                std::int64_t now_us, PastAnswersTable& past_answers);

}  // namespace slip
