// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// Whether one draft's proposals are worth the time that it takes to read prompts and answers for them. A draft that
// does not pay then costs nothing. Eight sequences in 64 are scouts: the draft reads them in any case, which shows when
// it pays again. They come one after the other, since sequences that run together share the passes of their drafts.
// Threads: one owner.
class DraftUse {
 public:
  // Adds the step of a sequence that `version` reads: the time its proposal saves, and the time its reading took.
  void add(std::uint64_t version, double saved_us, double read_us);
  // Whether the draft reads all sequences. A new version is tried with all of them.
  bool is_worth_reading(std::uint64_t version) const {
    return version != version_ || n_steps_ < kTrialSteps || saved_us_ >= read_us_;
  }
  // Whether the sequence that begins is a scout.
  bool takes_scout() { return begun_++ % kScoutInterval < kScouts; }

 private:
  static constexpr double kKeep = 0.998;  // a step counts half after 346 later ones
  static constexpr std::uint32_t kTrialSteps = 256, kScouts = 8, kScoutInterval = 64;

  std::uint64_t version_ = 0;
  std::uint32_t n_steps_ = 0;
  double saved_us_ = 0, read_us_ = 0;  // sums with exponential forgetting
  std::uint32_t begun_ = 0;
};

}  // namespace slip
