// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distill/canary.h"
#include "distill/replay_record.h"
#include "engine/speculate/draft_slot.h"

namespace slip {

// Paired scores that grow until a verdict falls. Looks are spaced by doubling, since each one costs significance.
struct Trial {
  explicit Trial(std::size_t first_look) : next_look_at(std::max<std::size_t>(first_look, 2)) {}

  std::vector<PairedScore> pairs;
  std::uint64_t looks = 0;
  std::size_t next_look_at;

  bool due() const { return pairs.size() >= next_look_at; }
  // Counts from 1.
  std::uint64_t take_look() {
    next_look_at = pairs.size() * 2;
    return ++looks;
  }
};

// A version as it is served, and where the store has it: a topic without a version of its own serves the base draft's
// weights under its own name, as number 0.
struct DraftSource {
  std::shared_ptr<const DraftVersion> version;
  std::string name;          // the draft in the store: the topic's own, or the base draft
  std::uint64_t number = 0;  // its version there
  std::filesystem::path folder;
  std::uint64_t optimizer_steps = 0;
};

// An export of the trainer, frozen: training goes on while it waits for its verdict. Whatever is newer than `cut_off`
// or held out it has never seen.
struct Candidate {
  std::shared_ptr<const ModelWeights> weights;
  std::filesystem::path staged;
  std::uint64_t cut_off = 0;  // newest sequence that training may have drawn
  std::uint64_t optimizer_steps = 0, trained_requests = 0;
  double train_loss = 0;
  Trial trial;
  std::deque<ReplayRecord> heldout_left;  // yet to be scored
};

// The version before the live one, scored on the same new text for a while.
struct Watch {
  DraftSource previous;
  Trial trial;
};

// What is learned about one topic: its draft, its cadence, its candidate. Plain data of the trainer thread.
struct Course {
  std::string topic;
  std::shared_ptr<DraftSlot> slot;
  DraftSource live;

  std::uint64_t trained_before = 0;  // requests behind the version that was live at the start
  std::uint64_t requests_seen = 0;   // finished and scored since the start
  std::uint64_t steps_done = 0;      // optimizer steps since the start
  std::uint64_t steps_since_export = 0;
  std::uint64_t requests_at_burst = 0;  // requests_seen when the last burst of steps ended
  bool in_burst = false;
  bool starved = false;            // replay has nothing to train on; until the next request
  std::uint64_t newest_drawn = 0;  // sequence up to which training may have seen records
  double loss = 0;                 // of the latest steps, smoothed

  std::optional<Candidate> candidate;
  std::optional<Watch> watch;
};

}  // namespace slip
