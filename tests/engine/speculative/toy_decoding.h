// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/speculative/acceptance.h"
#include "tests/engine/speculative/accept_given.h"

namespace slip::testing {

// A first-order Markov chain over a few tokens: a language model whose joint distribution over answers can be computed.
struct ToyModel {
  std::vector<std::vector<float>> logits;  // [vocab, vocab]: row t gives the logits of the token after token t
  std::vector<Distribution> next;          // [vocab]: the same, transformed

  // Logits uniform in [0, spread), addressed by `seed`.
  static ToyModel random(std::uint32_t vocab, std::uint64_t seed, float spread = 2.0F) {
    ToyModel model;
    for (std::uint32_t state = 0; state < vocab; ++state) {
      std::vector<float>& row = model.logits.emplace_back();
      for (std::uint32_t token = 0; token < vocab; ++token) {
        row.push_back(spread * static_cast<float>(uniform({seed, 0, state}, RandomPurpose::kDraft, token)));
      }
    }
    model.transform({});
    return model;
  }

  // Sets `next` to the logits transformed by `params`.
  void transform(const SamplingParams& params) {
    next.resize(logits.size());
    for (std::size_t state = 0; state < logits.size(); ++state)
      transform_logits(logits[state], params, {}, next[state]);
  }
};

// A draft and the way that it proposes.
struct ToyDraft {
  ToyModel model;
  DrawMethod draw_method = DrawMethod::kSampled;
  std::vector<std::int32_t> parents;  // Proposal::parents of every proposal
  bool without_replacement = false;   // siblings are drawn without replacement, so they differ
};

// A function that verifies a proposal. The distributions are the target's: [0] after the last token, [1 + i] after node
// i. A test can plant a faulty one.
using Rule = std::function<VerifyResult(const Proposal&, std::span<const Distribution>, const RandomAddress&)>;
// Changes a proposal between drawing and verifying, to plant a bug.
using Tamper = std::function<void(Proposal&, std::int32_t last_token)>;

inline VerifyResult reject(const Proposal& proposal, std::span<const Distribution> p, const RandomAddress& first) {
  return accept_given(proposal, p, AcceptanceRule::kRejection, first);
}
inline VerifyResult couple(const Proposal& proposal, std::span<const Distribution> p, const RandomAddress& first) {
  return accept_given(proposal, p, AcceptanceRule::kCoupled, first);
}

// Decodes with a draft as the engine does: each step proposes, scores and verifies. Random numbers are addressed by
// output index. `target` and `draft` outlive it; it keeps its buffers between calls.
class ToyDecoder {
 public:
  static constexpr std::size_t kBlock = 4;  // tokens of one answer
  using Block = std::array<std::int32_t, kBlock>;

  ToyDecoder(const ToyModel& target, const ToyDraft& draft, Rule rule, Tamper tamper = nullptr)
      : target_(target), draft_(draft), rule_(std::move(rule)), tamper_(std::move(tamper)) {
    const std::size_t n = draft.parents.size();
    proposal_.draw_method = draft.draw_method;
    proposal_.tokens.resize(n);
    proposal_.parents = draft.parents;
    proposal_.q.resize(n);
    p_.resize(n + 1);
  }

  // The answer that follows `last_token`.
  Block decode(std::uint64_t seed, std::int32_t last_token) {
    Block block{};
    std::size_t n = 0;
    while (n < kBlock) {
      const RandomAddress first{.seed = seed, .output_index = static_cast<std::uint32_t>(n)};
      propose(last_token, first);
      if (tamper_) tamper_(proposal_, last_token);
      score(last_token);
      const VerifyResult result = rule_(proposal_, p_, first);
      accepted_ += static_cast<std::int64_t>(result.accepted.size());
      tested_ += static_cast<std::int64_t>(result.accepted.size()) + (result.rejected_one ? 1 : 0);
      for (const std::int32_t node : result.accepted) {
        if (n < kBlock) block[n++] = proposal_.tokens[static_cast<std::size_t>(node)];
      }
      if (n < kBlock) block[n++] = result.added_token;
      last_token = block[n - 1];
    }
    return block;
  }

  // Sums over all calls of decode(); their ratio is the acceptance rate.
  std::int64_t accepted() const { return accepted_; }
  std::int64_t tested() const { return tested_; }  // accepted tokens and first rejections

 private:
  void propose(std::int32_t last_token, const RandomAddress& first) {
    for (std::size_t node = 0; node < proposal_.size(); ++node) {
      const std::int32_t parent = proposal_.parents[node];
      RandomAddress at = first;
      for (std::int32_t up = parent; up >= 0; up = proposal_.parents[static_cast<std::size_t>(up)]) ++at.output_index;
      const std::int32_t state = parent < 0 ? last_token : proposal_.tokens[static_cast<std::size_t>(parent)];
      proposal_.q[node] = draft_.model.next[static_cast<std::size_t>(state)];
      proposal_.tokens[node] = draw(node, at);
    }
  }

  std::int32_t draw(std::size_t node, const RandomAddress& at) {
    Distribution& q = proposal_.q[node];
    const bool best_unused = draft_.draw_method == DrawMethod::kDeterministic;
    if (best_unused || draft_.without_replacement) remove_earlier_siblings(node, q);
    if (best_unused) {
      const auto best = std::max_element(q.probabilities.begin(), q.probabilities.end());
      return q.ids[static_cast<std::size_t>(best - q.probabilities.begin())];
    }
    if (draft_.draw_method == DrawMethod::kGumbel) return sample_gumbel(q, at);
    return sample_inverse_cdf(q, uniform(at, RandomPurpose::kDraft, static_cast<std::uint32_t>(node)));
  }

  void remove_earlier_siblings(std::size_t node, Distribution& q) const {
    for (std::size_t earlier = 0; earlier < node; ++earlier) {
      if (proposal_.parents[earlier] != proposal_.parents[node]) continue;
      const auto found = std::find(q.ids.begin(), q.ids.end(), proposal_.tokens[earlier]);
      q.probabilities.erase(q.probabilities.begin() + (found - q.ids.begin()));
      q.ids.erase(found);
    }
    const double total = std::accumulate(q.probabilities.begin(), q.probabilities.end(), 0.0);
    for (double& probability : q.probabilities) probability /= total;
  }

  void score(std::int32_t last_token) {
    p_[0] = target_.next[static_cast<std::size_t>(last_token)];
    for (std::size_t node = 0; node < proposal_.size(); ++node) {
      p_[node + 1] = target_.next[static_cast<std::size_t>(proposal_.tokens[node])];
    }
  }

  const ToyModel& target_;
  const ToyDraft& draft_;
  Rule rule_;
  Tamper tamper_;
  Proposal proposal_;
  std::vector<Distribution> p_;
  std::int64_t accepted_ = 0, tested_ = 0;
};

}  // namespace slip::testing
