// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup_proposer.h"

namespace slip {

void LookupProposer::begin(const SequenceRef& sequence) {
  chains_.insert_or_assign(sequence.id, GuessedChain(sequence));
}

// Null for a sequence that has not begun.
GuessedChain* LookupProposer::read(const SequenceRef& sequence) {
  const auto found = chains_.find(sequence.id);
  if (found == chains_.end()) return nullptr;
  found->second.read(sequence);
  return &found->second;
}

Guesses LookupProposer::guesses(const SequenceRef& sequence) {
  const GuessedChain* chain = read(sequence);
  return chain == nullptr ? Guesses() : chain->guesses();
}

std::int32_t LookupProposer::propose(std::span<const DraftTask> tasks) {
  for (const DraftTask& task : tasks) {
    const GuessedChain* chain = task.nodes > 0 ? read(*task.sequence) : nullptr;
    if (chain != nullptr) chain->propose(task.nodes, *task.proposal);
  }
  return 0;
}

}  // namespace slip
