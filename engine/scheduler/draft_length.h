// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduler/step_curve.h"

namespace slip {

// Acceptance rate of one draft as served, with forgetting. A new version keeps next to no evidence, so that it is
// tried at once. Threads: one owner.
class AcceptanceEstimate {
 public:
  // One verification of a proposal by `version`: `accepted` tokens, and a first rejection or none.
  void add(std::uint64_t version, std::int32_t accepted, bool rejected);
  // Of a proposal's first token, and of each further one once those before it were accepted: a text that repeats itself
  // soon goes its own way again. The version that would propose next is `version`.
  double alpha(std::uint64_t version) const { return first_.alpha(kept(version)); }
  double alpha_deeper(std::uint64_t version) const;
  // True every 32nd time it is asked: a draft that does not pay is tried now and then, since texts change.
  bool is_probe() { return ++asked_ % kProbeInterval == 0; }

 private:
  static constexpr std::uint32_t kProbeInterval = 32;
  struct Rate {
    double accepted = 0, tested = 0;
    void add(double keep, std::int32_t more_accepted, std::int32_t more_tested);
    double alpha(double keep, double prior = 0.5) const;
  };
  double kept(std::uint64_t version) const;  // share of the evidence that counts for a version

  std::uint64_t version_ = 0;
  Rate first_, deeper_;
  std::uint32_t asked_ = 0;
};

// One decoding sequence, as far as its draft length is concerned.
struct DraftOutlook {
  std::int32_t most = 0;               // nodes it may propose at all
  double alpha = 0;                    // P(the first drafted token is accepted)
  bool probe = false;                  // one node at least, whether it pays or not
  std::optional<double> alpha_deeper;  // of each further one | those before it were; empty: alpha
};

// Draft lengths with the greatest goodput, tokens a second, of the step (SmartSpec, arXiv 2406.14066, with a length for
// each sequence): for each depth that the deepest proposal may have, the nodes with the greatest expected tokens
// α · α_deeper^(depth − 1) are taken, as many as make the ratio of tokens to time best. `prompt_rows` are read beside.
// `lengths` gets one entry an outlook, 0 where plain decoding is faster. Returns that goodput in tokens a µs, before
// probes; 0 without outlooks. Pure. Cost: O(k) times O(n · k) nodes, O(n) each.
double choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                            std::vector<std::int32_t>& lengths);

}  // namespace slip
