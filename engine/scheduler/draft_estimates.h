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
#include "engine/scheduler/step_curve.h"
#include "engine/speculative/choice_rates.h"
#include "engine/speculative/proposer.h"

namespace slip {

// What steps have shown about drafting: how long they take, how often proposals are accepted, and whether what a draft
// reads is worth its time. Draft lengths are chosen by it. Threads: one owner.
class DraftEstimates {
 public:
  struct Step {
    std::int32_t rows = 0, prompt_rows = 0;  // of the target's pass: for decoding, and for prompts
    double verify_us = 0;                    // that pass
    std::int32_t draft_passes = 0;
    double draft_us = 0;  // those passes, without what drafts read beside them
    bool leased = false;  // the learner had cores
  };
  // Of a step that read prompts only a bound is learned, since their rows take different times.
  void add_step(const Step& step);
  bool knows_times() const { return curve_.known(); }
  // REQUIRES: knows_times(). `leased`: of a step under a lease, if those are known. Cost: O(StepCurve::kRows).
  StepCurve curve(bool leased = false) const {
    return (leased && leased_curve_.known() ? leased_curve_ : curve_).curve();
  }

  // The outlook of a decoding sequence that may propose `most` tokens, or `ready_depth` of its draft. Valid as long as
  // `guesses`.
  DraftOutlook outlook(const SequenceRef& sequence, const Guesses& guesses, std::int32_t most,
                       std::int32_t ready_depth);
  // Adds the verification of a draft's proposal. `accepted`: the nodes on the accepted path that were committed;
  // `rejected`: all choices for the place behind them were wrong.
  void add_verification(const SequenceRef& sequence, const Proposal& proposal, std::span<const std::int32_t> accepted,
                        bool rejected);
  // The tokens that came tell how good the guesses were, whatever was proposed.
  void add_guesses(const SequenceRef& sequence, const Guesses& guesses, std::span<const std::int32_t> committed);

  // These need a sequence with a LiveDraft. As DraftUse: adds a step in which the draft read it, and what that tells.
  void add_reading(const SequenceRef& sequence, double saved_us, double read_us);
  bool is_worth_reading(const SequenceRef& sequence) const;
  bool takes_scout(const SequenceRef& sequence) { return use_[sequence.live_draft->id()].takes_scout(); }

 private:
  struct Acceptance {
    AcceptanceEstimate drafted, guessed;
  };
  Acceptance& acceptance_of(const SequenceRef& sequence, int confidence);
  ChoiceRates& choice_rates_of(const SequenceRef& sequence);
  static void add_choices(const Proposal& proposal, std::span<const std::int32_t> accepted, bool rejected,
                          ChoiceRates& rates);

  StepCurveEstimate curve_, leased_curve_;  // without and with a lease
  // By draft (empty for a sequence without a LiveDraft), and by Guesses::confidence.
  std::map<std::pair<std::optional<DraftId>, int>, Acceptance> acceptance_;
  std::map<DraftId, DraftUse> use_;
  std::map<std::pair<DraftId, DrawMethod>, ChoiceRates> choice_rates_;
};

}  // namespace slip
