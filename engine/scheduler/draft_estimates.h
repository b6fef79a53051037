// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "common/ids.h"
#include "engine/scheduler/draft_length.h"
#include "engine/scheduler/draft_use.h"
#include "engine/scheduler/rank_profile.h"
#include "engine/scheduler/step_curve.h"
#include "engine/speculative/choice_rates.h"
#include "engine/speculative/proposer.h"

namespace slip {

// Measurements from which draft lengths are chosen: how long steps take, how often proposals are accepted, and whether
// a draft's reading is worth its time. Threads: one owner.
class DraftEstimates {
 public:
  explicit DraftEstimates(const StepCurves& measured = {})
      : curve_(measured.unleased), leased_curve_(measured.leased) {}

  struct Step {
    std::int32_t rows = 0, prompt_rows = 0;  // of the target's pass: for decoding, and for prompts
    double verify_us = 0;                    // that pass
    std::int32_t draft_passes = 0;
    double draft_us = 0;  // those passes, without what drafts read beside them
    bool leased = false;  // the learner had cores
  };
  // A step that read prompts gives only a lower bound of a row's time.
  void add_step(const Step& step);
  bool knows_times() const { return curve_.known(); }
  // REQUIRES: knows_times(). `leased`: of a step under a lease, if those are known. Cost: O(StepCurve::kRows).
  StepCurve curve(bool leased = false) const {
    return (leased && leased_curve_.known() ? leased_curve_ : curve_).curve();
  }

  StepCurves step_curves() const { return {curve_.state(), leased_curve_.state()}; }

  // The outlook of a decoding sequence that may propose at most `most` tokens, and at most `ready_depth` by its draft.
  // Valid as long as `guesses`.
  DraftOutlook outlook(const SequenceRef& sequence, const Guesses& guesses, std::int32_t most,
                       std::int32_t ready_depth);
  // Adds the verification of a draft's proposal. `accepted`: the nodes on the accepted path that were committed;
  // `rejected`: all choices for the place after them were wrong.
  void add_verification(const SequenceRef& sequence, const Proposal& proposal, std::span<const std::int32_t> accepted,
                        bool rejected);
  // Compares the guesses with the committed tokens, whatever was proposed.
  void add_guesses(const SequenceRef& sequence, const Guesses& guesses, std::span<const std::int32_t> committed);

  // As DraftUse, for a sequence with a LiveDraft. add_reading() adds a step in which the draft read the sequence.
  void add_reading(const SequenceRef& sequence, double saved_us, double read_us);
  bool is_worth_reading(const SequenceRef& sequence) const;
  bool takes_scout(const SequenceRef& sequence) { return use_[sequence.live_draft->id()].takes_scout(); }

 private:
  struct Acceptance {
    AcceptanceEstimate drafted, guessed;
  };
  Acceptance& acceptance_of(const SequenceRef& sequence, int confidence);
  // How often a draft's choices were right.
  struct Choices {
    ChoiceRates by_probability;
    RankProfile by_rank;
  };
  Choices& choices_of(const SequenceRef& sequence);
  static void add_choices(const SequenceRef& sequence, const Proposal& proposal, std::span<const std::int32_t> accepted,
                          bool rejected, Choices& choices);

  StepCurveEstimate curve_, leased_curve_;  // without and with a lease
  // By draft (empty for a sequence without a LiveDraft), and by Guesses::confidence.
  std::map<std::pair<std::optional<DraftId>, int>, Acceptance> acceptance_;
  std::map<DraftId, DraftUse> use_;
  std::map<std::pair<DraftId, DrawMethod>, Choices> choices_;
};

}  // namespace slip
