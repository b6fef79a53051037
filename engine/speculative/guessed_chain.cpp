// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/guessed_chain.h"

#include <algorithm>

namespace slip {

void GuessedChain::read(const SequenceRef& sequence) {
  if (n_read_ == sequence.tokens.size()) return;
  n_read_ = sequence.tokens.size();
  tokens_.clear();
  const std::int32_t most = std::min(sequence.most_guesses, kMaxProposalNodes);
  tokens_.reserve(kMaxProposalNodes);
  PromptLookup::Guess guess = lookup_.after(sequence.tokens, sequence.prompt_tokens);
  confidence_ = guess.confidence();
  while (guess.token >= 0 && !guess.by_one_token && std::ssize(tokens_) < most) {
    tokens_.push_back(guess.token);
    guess = lookup_.guess(sequence.tokens, tokens_);
  }
}

void GuessedChain::propose(std::int32_t nodes, Proposal& proposal) const {
  proposal.draw_method = DrawMethod::kDeterministic;
  proposal.confidence = confidence_;
  const auto n = std::min(tokens_.size(), static_cast<std::size_t>(nodes));
  for (std::size_t i = 0; i < n; ++i) proposal.add_to_chain(tokens_[i], /*log_q=*/0, ProposedBy::kPromptLookup);
}

}  // namespace slip
