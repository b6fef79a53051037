// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduler/deadlines.h"
#include "engine/scheduler/step_curve.h"
#include "engine/speculative/choice_rates.h"
#include "engine/speculative/proposal.h"

namespace slip {

// The share of its evidence that an estimate keeps when a new version of the draft begins.
inline constexpr double kKeepVersion = 0.02;

// The acceptance rate of one draft in serving, with exponential forgetting: the weight of a verification halves with
// every 34 later ones. A new version keeps 2 % of the evidence, so that it is tried at once. Threads: one owner.
class AcceptanceEstimate {
 public:
  // Adds one verification of a proposal by `version`: `accepted` tokens, and whether a first rejection followed.
  void add(std::uint64_t version, std::int32_t accepted, bool rejected);
  // The expected acceptance rates of a proposal by `version`: alpha() for its first token, alpha_deeper() for each
  // later token given that those before it were accepted. They differ, since a text that repeats itself soon stops
  // repeating.
  double alpha(std::uint64_t version) const { return first_.alpha(kept(version)); }
  double alpha_deeper(std::uint64_t version) const;
  // True on every 32nd call. The step then drafts even if that does not pay, since the text may have changed.
  bool is_probe() { return ++asked_ % kProbeInterval == 0; }

 private:
  static constexpr std::uint32_t kProbeInterval = 32;
  struct Rate {
    double accepted = 0, tested = 0;
    void add(double keep, std::int32_t more_accepted, std::int32_t more_tested);
    double alpha(double keep, double prior = 0.5) const;
  };
  double kept(std::uint64_t version) const;  // share of the evidence that counts for `version`

  std::uint64_t version_ = 0;
  Rate first_, deeper_;
  std::uint32_t asked_ = 0;
};

// The draft length of each of `n` decoding sequences while no StepCurve is known: the longest, up to one, with which
// the step can be measured. Steps with more rows are not measured, so the curve would stay unknown.
constexpr std::int32_t unmeasured_draft_length(std::int32_t n) {
  return 2 * n <= StepCurve::kRows ? 1 : 0;
}

// The inputs of the draft length choice for one decoding sequence.
struct DraftOutlook {
  std::int32_t most = 0;               // maximum draft length, in nodes
  double alpha = 0;                    // P(the first drafted token is accepted)
  bool probe = false;                  // add_probes(): draft at least one node, whether it pays or not
  std::optional<double> alpha_deeper;  // P(a later token is accepted | all before it were); empty: alpha
  double worth = 1;                    // of each of its tokens, against those of other sequences
  // The chain that can be proposed instead without a draft pass.
  struct Guesses {
    std::int32_t most = 0;  // its length, as far as it may be proposed
    double alpha = 0, alpha_deeper = 0;
  } guesses;
  std::size_t sequence = 0;              // its index among the running ones
  const ChoiceRates* rates = nullptr;    // of its draft; null: it has none, or it is not ready
  RankRates rank_rates{};                // of its draft, if `rates` is not null
  std::optional<DeadlineLoad> deadline;  // empty: no running sequence has a target
  std::int32_t width = kMaxTreeWidth;    // maximum choices of its draft for one place

  double deeper() const { return alpha_deeper.value_or(alpha); }
};

// The expected accepted tokens of a chain of `nodes`, of which the first is accepted with probability `alpha`, and each
// later one with `alpha_deeper` if all before it were. Pure.
double expected_tokens(std::int32_t nodes, double alpha, double alpha_deeper);

// The choice for one sequence: the length of its proposal, 0: decode without one; and whether it is of guesses.
struct DraftLength {
  std::int32_t nodes = 0;
  bool guessed = false;
  bool operator==(const DraftLength&) const = default;
};

// The expected result of a step's draft lengths, before probes.
struct LengthChoice {
  double goodput = 0;  // tokens per µs; 0 without sequences
  // How much longer the best plan without a draft pass would take for as many tokens; 0 if nothing is drafted.
  double saved_us = 0;
};

// Chooses the draft lengths that maximize the goodput of the step: expected tokens over the step's time by `curve`
// (SmartSpec, arXiv 2406.14066, but with a length for each sequence). With a `price` > 0 of a µs in tokens they
// maximize tokens − price · time instead: for a step whose own goodput says nothing about what its time is worth, such
// as one that reads a prompt. The pass also reads `prompt_rows` rows of prompts. For each number of draft passes from 0
// to k, the largest `most`, it adds nodes in descending order of their expected tokens α · α_deeper^(depth − 1). It
// keeps the number of nodes with the best value. Without a pass all sequences take their guesses. With passes all take
// their drafts. A second try, if it differs, gives each sequence its guesses where their chain promises more tokens
// than the draft within that depth. `lengths` gets one entry for each outlook. Pure. Cost: O(n k² log n) for n
// outlooks.
LengthChoice choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows,
                                  const StepCurve& curve, std::vector<DraftLength>& lengths, double price = 0);

// The price of a µs in tokens for a step that reads `prompt_rows` > 0 rows of prompts. By that step's own goodput a
// token would seem worth too much time: the prompts make it long anyway. A token that is not proposed now comes from a
// later step. If that has prompts too, as `prompt_share` of the steps, it costs the time of one more row; else its
// share of a step of these sequences alone. So where prompts fill every step, as in a burst, only a token that is sure
// to be accepted pays. `scratch` holds anything afterwards. Pure. Cost: that of choose_draft_lengths().
double price_beside_prompts(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, double prompt_share,
                            const StepCurve& curve, std::vector<DraftLength>& scratch);

struct ProbeTimes {
  double spent_us = 0;    // of the probes that were added
  double refused_us = 0;  // of the cheapest one that was not; 0: all were
};

// Gives each due probe without drafted nodes one node, while together they take at most `allowance_us`: with a full
// server one more row may begin another tile of rows and cost a seventh of a pass. Pure.
ProbeTimes add_probes(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                      double allowance_us, std::vector<DraftLength>& lengths);

}  // namespace slip
