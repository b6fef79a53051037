// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup_proposer.h"

#include <algorithm>

namespace slip {

void LookupProposer::begin(const SequenceRef& sequence) {
  texts_.insert_or_assign(sequence.id, Text(sequence));
}

// Reads the new committed tokens and makes the chain behind them; null for a sequence that has not begun.
const LookupProposer::Text* LookupProposer::read(const SequenceRef& sequence) {
  const auto found = texts_.find(sequence.id);
  if (found == texts_.end()) return nullptr;
  Text& text = found->second;
  if (text.n_read == sequence.tokens.size()) return &text;
  text.n_read = sequence.tokens.size();
  text.chain.clear();
  text.chain.reserve(kMaxProposalNodes);
  PromptLookup::Guess guess = text.lookup.after(sequence.tokens, sequence.prompt_tokens);
  text.confidence = guess.confidence();
  while (guess.token >= 0 && std::ssize(text.chain) < kMaxProposalNodes) {
    text.chain.push_back(guess.token);
    guess = text.lookup.guess(sequence.tokens, text.chain);
  }
  return &text;
}

std::int32_t LookupProposer::ready_depth(const SequenceRef& sequence) {
  const Text* text = read(sequence);
  return text == nullptr ? 0 : static_cast<std::int32_t>(text->chain.size());
}

int LookupProposer::confidence(const SequenceRef& sequence) {
  const Text* text = read(sequence);
  return text == nullptr ? 0 : text->confidence;
}

void LookupProposer::propose(std::span<const DraftTask> tasks) {
  for (const DraftTask& task : tasks) {
    const Text* text = task.nodes > 0 ? read(*task.sequence) : nullptr;
    if (text == nullptr) continue;
    Proposal& proposal = *task.proposal;
    proposal.draw_method = DrawMethod::kDeterministic;
    proposal.version = 0;
    proposal.confidence = text->confidence;
    const auto n = std::min<std::size_t>(text->chain.size(), static_cast<std::size_t>(task.nodes));
    for (std::size_t i = 0; i < n; ++i) proposal.add_to_chain(text->chain[i], /*log_q=*/0);
  }
}

}  // namespace slip
