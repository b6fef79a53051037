// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduler/step_curve.h"

namespace slip {

// Acceptance rate of one draft in serving, with exponential forgetting. A new version keeps 2 % of the evidence, so
// that it is tried at once. Threads: one owner.
class AcceptanceEstimate {
 public:
  // Adds one verification of a proposal by `version`: `accepted` tokens, and whether a first rejection followed.
  void add(std::uint64_t version, std::int32_t accepted, bool rejected);
  // Acceptance rates expected of `version`, which would propose next: alpha() for a proposal's first token,
  // alpha_deeper() for each further one given that those before it were accepted. They differ since a text that repeats
  // itself soon stops doing so.
  double alpha(std::uint64_t version) const { return first_.alpha(kept(version)); }
  double alpha_deeper(std::uint64_t version) const;
  // True on every 32nd call: a draft that does not pay is still tried now and then, since texts change.
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

// The inputs of the draft length choice for one decoding sequence.
struct DraftOutlook {
  std::int32_t most = 0;               // maximum number of nodes
  double alpha = 0;                    // P(the first drafted token is accepted)
  bool probe = false;                  // propose at least one node, whether it pays or not
  std::optional<double> alpha_deeper;  // of each further one | those before it were; empty: alpha
};

// Chooses the draft lengths that maximize the step's goodput, in tokens per second (SmartSpec, arXiv 2406.14066, but
// with a length for each sequence). For each maximum depth, it takes nodes in descending order of expected tokens α ·
// α_deeper^(depth − 1), as many as maximize tokens / time. The pass also reads `prompt_rows`. `lengths` gets one entry
// for each outlook, 0 where plain decoding is faster. Returns that goodput in tokens per µs, before probes; 0 without
// outlooks. Pure. Cost: O(k) times O(n · k) nodes, O(n) each.
double choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                            std::vector<std::int32_t>& lengths);

}  // namespace slip
