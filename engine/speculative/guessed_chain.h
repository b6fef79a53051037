// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculative/lookup/prompt_lookup.h"
#include "engine/speculative/proposer.h"

namespace slip {

// Prompt lookup's guesses of the tokens after one sequence's committed ones: a chain that ends where no earlier n-gram
// of two tokens matches. It is made once for each length of the sequence. Threads: one owner. Memory: that of a
// PromptLookup.
class GuessedChain {
 public:
  explicit GuessedChain(const SequenceRef& sequence) : lookup_(sequence.prediction, sequence.past_answers) {}

  // Reads the new committed tokens and makes the chain that follows them.
  void read(const SequenceRef& sequence);
  // At most `most_guesses` and kMaxProposalNodes tokens, with PromptLookup::Guess::confidence() of the first.
  Guesses guesses() const { return {tokens_, confidence_}; }
  // The first `nodes` tokens as a proposal. They do not depend on random numbers, so both acceptance rules take them as
  // deterministic.
  void propose(std::int32_t nodes, Proposal& proposal) const;
  PromptLookup& lookup() { return lookup_; }  // has read the committed tokens

 private:
  PromptLookup lookup_;
  std::size_t n_read_ = 0;  // committed tokens when the chain was made
  std::vector<std::int32_t> tokens_;
  int confidence_ = 0;
};

}  // namespace slip
