// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/step_curve.h"

namespace slip {

// Acceptance rate of one draft as served, with forgetting. A new version keeps next to no evidence, so that it is
// tried at once. Threads: one owner.
class AcceptanceEstimate {
 public:
  // One verification of a proposal by `version`: `accepted` tokens, and a first rejection or none.
  void add(std::uint64_t version, std::int32_t accepted, bool rejected);
  // The version that would propose next is `version`.
  double alpha(std::uint64_t version) const;
  // True every 32nd time it is asked: a draft that does not pay is tried now and then, since texts change.
  bool is_probe() { return ++asked_ % kProbeInterval == 0; }

 private:
  static constexpr std::uint32_t kProbeInterval = 32;
  std::uint64_t version_ = 0;
  double accepted_ = 0, judged_ = 0;
  std::uint32_t asked_ = 0;
};

// One decoding sequence, as far as its draft length is concerned.
struct DraftOutlook {
  std::int32_t most = 0;  // nodes it may propose at all
  double alpha = 0;       // P(a drafted token is accepted | those before it were)
  bool probe = false;     // one node at least, whether it pays or not
};

// Draft lengths with the greatest goodput, tokens a second, of the step (SmartSpec, arXiv 2406.14066, with a length for
// each sequence): for each depth that the deepest proposal may have, the nodes with the greatest expected tokens
// α^depth are taken, as many as make the ratio of tokens to time best. `prompt_rows` are read beside. `lengths` gets
// one entry an outlook, 0 where plain decoding is faster. Returns that goodput in tokens a µs, before probes; 0 without
// outlooks. Pure. Cost: O(k) times O(n · k) nodes, O(n) each.
double choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                            std::vector<std::int32_t>& lengths);

}  // namespace slip
