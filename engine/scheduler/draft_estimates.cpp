// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_estimates.h"

#include <algorithm>

namespace slip {
namespace {

// As Proposal::version.
std::uint64_t live_version(const SequenceRef& sequence) {
  const auto live = sequence.live_draft != nullptr ? sequence.live_draft->get() : nullptr;
  return live ? live->number : 0;
}

}  // namespace

void DraftEstimates::add_step(const Step& step) {
  StepCurveEstimate& curve = step.leased ? leased_curve_ : curve_;
  if (step.prompt_rows > 0) return curve.add_prompts(step.prompt_rows + step.rows, step.verify_us);
  curve.add(step.rows, step.verify_us, step.draft_passes, step.draft_us);
}

DraftEstimates::Acceptance& DraftEstimates::acceptance_of(const SequenceRef& sequence, int confidence) {
  const auto draft = sequence.live_draft != nullptr ? std::optional(sequence.live_draft->id()) : std::nullopt;
  return acceptance_[{draft, confidence}];
}

DraftEstimates::Choices& DraftEstimates::choices_of(const SequenceRef& sequence) {
  return choices_[{sequence.live_draft->id(), draw_method_of(sequence)}];
}

DraftOutlook DraftEstimates::outlook(const SequenceRef& sequence, const Guesses& guesses, std::int32_t most,
                                     std::int32_t ready_depth) {
  DraftOutlook outlook;
  outlook.most = std::min(most, ready_depth);
  if (outlook.most > 0) {
    AcceptanceEstimate& known = acceptance_of(sequence, guesses.confidence).drafted;
    const std::uint64_t version = live_version(sequence);
    outlook.alpha = known.alpha(version);
    outlook.alpha_deeper = known.alpha_deeper(version);
    outlook.probe = known.is_probe();
    if (sequence.live_draft != nullptr) {
      const Choices& choices = choices_of(sequence);
      outlook.rates = &choices.by_probability;
      outlook.rank_rates = choices.by_rank.rates(version);
    }
  }
  outlook.guesses.most = std::min(most, static_cast<std::int32_t>(guesses.tokens.size()));
  if (outlook.guesses.most > 0) {
    const AcceptanceEstimate& known = acceptance_of(sequence, guesses.confidence).guessed;
    outlook.guesses.alpha = known.alpha(0);
    outlook.guesses.alpha_deeper = known.alpha_deeper(0);
  }
  return outlook;
}

void DraftEstimates::add_verification(const SequenceRef& sequence, const Proposal& proposal,
                                      std::span<const std::int32_t> accepted, bool rejected) {
  // A sibling was accepted where a first choice was rejected.
  const bool lost_one = rejected || proposal.count_first_choices(accepted) < std::ssize(accepted);
  acceptance_of(sequence, proposal.confidence)
      .drafted.add(proposal.version, proposal.count_leading_first_choices(accepted), lost_one);
  if (sequence.live_draft != nullptr) add_choices(sequence, proposal, accepted, rejected, choices_of(sequence));
}

void DraftEstimates::add_choices(const SequenceRef& sequence, const Proposal& proposal,
                                 std::span<const std::int32_t> accepted, bool rejected, Choices& choices) {
  std::int32_t parent = -1;
  for (std::size_t depth = 0; depth < accepted.size() + (rejected ? 1 : 0); ++depth) {
    const bool was_accepted = depth < accepted.size();
    const double first_log_q = proposal.log_q(proposal.first_below(parent));
    const std::int32_t right = was_accepted ? proposal.rank_of(accepted[depth]) : kMaxTreeWidth;
    const std::int32_t n_choices = proposal.choices_below(parent);
    for (std::int32_t rank = 0; rank < std::min(right + 1, n_choices); ++rank) {
      choices.by_rank.add(proposal.version, rank, rank == right);
      if (sequence.wants_probability) choices.by_probability.add(first_log_q, rank, rank == right);
    }
    if (was_accepted) parent = accepted[depth];
  }
}

void DraftEstimates::add_guesses(const SequenceRef& sequence, const Guesses& guesses,
                                 std::span<const std::int32_t> committed) {
  if (guesses.tokens.empty() || committed.empty()) return;
  const auto came = committed.first(std::min(committed.size(), guesses.tokens.size()));
  const auto n_right = std::mismatch(came.begin(), came.end(), guesses.tokens.begin()).first - came.begin();
  acceptance_of(sequence, guesses.confidence)
      .guessed.add(/*version=*/0, static_cast<std::int32_t>(n_right), n_right < std::ssize(came));
}

void DraftEstimates::add_reading(const SequenceRef& sequence, double saved_us, double read_us) {
  use_[sequence.live_draft->id()].add(live_version(sequence), saved_us, read_us);
}

bool DraftEstimates::is_worth_reading(const SequenceRef& sequence) const {
  const auto use = use_.find(sequence.live_draft->id());
  return use == use_.end() || use->second.is_worth_reading(live_version(sequence));
}

}  // namespace slip
