// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_length.h"

#include <algorithm>
#include <cstddef>

namespace slip {
namespace {

constexpr double kKeepVerification = 0.98;  // half forgotten after 34 verifications
constexpr double kPriorTested = 2;
constexpr double kMostAlpha = 0.99;

}  // namespace

double AcceptanceEstimate::kept(std::uint64_t version) const {
  return version == version_ ? 1 : kKeepVersion;
}

void AcceptanceEstimate::Rate::add(double keep, std::int32_t more_accepted, std::int32_t more_tested) {
  accepted = keep * accepted + more_accepted;
  tested = keep * tested + more_tested;
}

double AcceptanceEstimate::Rate::alpha(double keep, double prior) const {
  return std::min((keep * accepted + prior * kPriorTested) / (keep * tested + kPriorTested), kMostAlpha);
}

void AcceptanceEstimate::add(std::uint64_t version, std::int32_t accepted, bool rejected) {
  const double keep = version == version_ ? kKeepVerification : kKeepVersion;
  version_ = version;
  const std::int32_t tested = accepted + (rejected ? 1 : 0);
  const std::int32_t first = std::min(accepted, 1), first_tested = std::min(tested, 1);
  first_.add(keep, first, first_tested);
  deeper_.add(keep, accepted - first, tested - first_tested);
}

double AcceptanceEstimate::alpha_deeper(std::uint64_t version) const {
  return deeper_.alpha(kept(version), alpha(version));
}

double expected_tokens(std::int32_t nodes, double alpha, double alpha_deeper) {
  double sum = 0, next = alpha;
  for (std::int32_t i = 0; i < nodes; ++i, next *= alpha_deeper) sum += next;
  return sum;
}

namespace {

// A chain that a sequence may propose.
struct Chain {
  std::int32_t most = 0;
  double alpha = 0, alpha_deeper = 0;
  bool guessed = false;

  double tokens() const { return expected_tokens(most, alpha, alpha_deeper); }
};

// What a step may draft: at most `depth` tokens deep, and whether long guesses take the place of drafts.
struct Depth {
  std::int32_t depth = 0;
  bool mixed = false;
};

Chain chain_within(const DraftOutlook& outlook, Depth of) {
  const Chain drafted{std::min(outlook.most, of.depth), outlook.alpha, outlook.deeper()};
  const Chain guessed{outlook.guesses.most, outlook.guesses.alpha, outlook.guesses.alpha_deeper, /*guessed=*/true};
  return drafted.most == 0 || (of.mixed && guessed.tokens() > drafted.tokens()) ? guessed : drafted;
}

// Whether the guesses of any sequence take the place of its draft.
bool mixing_matters(std::span<const DraftOutlook> outlooks, std::int32_t depth) {
  return std::any_of(outlooks.begin(), outlooks.end(), [&](const DraftOutlook& outlook) {
    return chain_within(outlook, {depth, /*mixed=*/true}).guessed != chain_within(outlook, {depth, false}).guessed;
  });
}

// The nodes with the most expected tokens when no sequence drafts deeper than `of.depth`.
struct BestNodes {
  // A sequence's next node. The greatest has the most expected tokens; of equal ones it is the first sequence's.
  struct Next {
    double tokens = 0;
    std::size_t sequence = 0;
    bool operator<(const Next& other) const {
      return tokens != other.tokens ? tokens < other.tokens : sequence > other.sequence;
    }
  };
  std::vector<Chain> chains;       // of the sequences
  std::vector<Next> next;          // a heap
  std::vector<std::size_t> nodes;  // each node's sequence, in descending order of expected tokens
  std::vector<std::int32_t> lengths;

  // The step with the greatest value: its tokens, its time and its nodes.
  struct Best {
    double value = 0, tokens = 0, step_us = 0;
    std::size_t n_nodes = 0;
  };
  // `price` > 0: a step's value is its tokens less price · time; 0: tokens / time.
  Best fill(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, Depth of, const StepCurve& curve,
            double price) {
    const auto n = static_cast<std::int32_t>(outlooks.size());
    chains.clear();
    next.clear();
    nodes.clear();
    lengths.assign(outlooks.size(), 0);
    double tokens = 0;  // weighted by their worth
    for (std::size_t i = 0; i < outlooks.size(); ++i) {
      chains.push_back(chain_within(outlooks[i], of));
      if (chains[i].most > 0 && chains[i].alpha > 0) next.push_back({chains[i].alpha * outlooks[i].worth, i});
      tokens += outlooks[i].worth;
    }
    std::make_heap(next.begin(), next.end());
    Best best_yet;
    for (bool is_first = true;; is_first = false) {
      const auto n_nodes = static_cast<std::int32_t>(nodes.size());
      const double step_us = curve.pass_us(n + prompt_rows + n_nodes) + curve.drafting.us(of.depth);
      const double value = price > 0 ? tokens - price * step_us : tokens / step_us;
      if (is_first || value > best_yet.value) best_yet = {value, tokens, step_us, nodes.size()};
      if (next.empty()) return best_yet;
      std::pop_heap(next.begin(), next.end());
      Next best = next.back();
      next.pop_back();
      tokens += best.tokens;
      nodes.push_back(best.sequence);
      const Chain& chain = chains[best.sequence];
      best.tokens *= chain.alpha_deeper;
      if (++lengths[best.sequence] == chain.most || best.tokens <= 0) continue;
      next.push_back(best);
      std::push_heap(next.begin(), next.end());
    }
  }
};

}  // namespace

LengthChoice choose_draft_lengths(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows,
                                  const StepCurve& curve, std::vector<DraftLength>& lengths, double price) {
  lengths.assign(outlooks.size(), {});
  if (outlooks.empty()) return {};
  std::int32_t deepest = 0;
  for (const DraftOutlook& outlook : outlooks) deepest = std::max(deepest, outlook.most);
  BestNodes nodes;
  BestNodes::Best best, without_pass;
  const auto keep_if_best = [&](Depth of) {
    const BestNodes::Best found = nodes.fill(outlooks, prompt_rows, of, curve, price);
    if (of.depth == 0) without_pass = found;
    if (of.depth > 0 && found.value <= best.value) return;
    best = found;
    for (std::size_t i = 0; i < outlooks.size(); ++i) lengths[i] = {0, nodes.chains[i].guessed};
    for (std::size_t i = 0; i < found.n_nodes; ++i) ++lengths[nodes.nodes[i]].nodes;
  };
  // All sequences share one drafting pass per depth, so a step pays for its deepest proposal.
  for (std::int32_t depth = 0; depth <= deepest; ++depth) {
    keep_if_best({depth, /*mixed=*/false});
    if (mixing_matters(outlooks, depth)) keep_if_best({depth, /*mixed=*/true});
  }
  return {best.tokens / best.step_us, best.tokens * without_pass.step_us / without_pass.tokens - best.step_us};
}

double price_beside_prompts(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, double prompt_share,
                            const StepCurve& curve, std::vector<DraftLength>& scratch) {
  constexpr double kLeastRowUs = 0.01;
  const double row_us = std::max(curve.row_us(prompt_rows + static_cast<std::int32_t>(outlooks.size())), kLeastRowUs);
  const double goodput = choose_draft_lengths(outlooks, /*prompt_rows=*/0, curve, scratch).goodput;
  return goodput > 0 ? 1 / (prompt_share * row_us + (1 - prompt_share) / goodput) : 1 / row_us;
}

ProbeTimes add_probes(std::span<const DraftOutlook> outlooks, std::int32_t prompt_rows, const StepCurve& curve,
                      double allowance_us, std::vector<DraftLength>& lengths) {
  std::int32_t rows = prompt_rows + static_cast<std::int32_t>(outlooks.size());
  bool has_pass = false;
  for (const DraftLength& length : lengths) {
    rows += length.nodes;
    has_pass |= length.nodes > 0 && !length.guessed;
  }
  ProbeTimes times;
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    DraftLength& length = lengths[i];
    if (!outlooks[i].probe || outlooks[i].most == 0 || (length.nodes > 0 && !length.guessed)) continue;
    const std::int32_t with_probe = rows + 1 - length.nodes;
    const double pass_us = std::max(0.0, curve.pass_us(with_probe) - curve.pass_us(rows));
    const double probe_us = pass_us + (has_pass ? 0 : curve.drafting.us(1));
    if (times.spent_us + probe_us > allowance_us) {
      times.refused_us = times.refused_us == 0 ? probe_us : std::min(times.refused_us, probe_us);
      continue;
    }
    times.spent_us += probe_us;
    rows = with_probe;
    has_pass = true;
    length = {1, false};
  }
  return times;
}

}  // namespace slip
