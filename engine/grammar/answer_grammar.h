// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/grammar/token_masks.h"

namespace slip {

// One answer's state in its grammar. Keeps the state after the committed tokens and the states along the last queried
// path. So each row of a proposal, and of the verification after it, costs one step. A path that branches off reuses
// the states before the branch. Threads: the engine's only.
class AnswerGrammar {
 public:
  // `masks` outlives this.
  AnswerGrammar(std::shared_ptr<const Grammar> grammar, TokenMasks& masks);

  // The mask of tokens that may follow `answer`: the committed tokens, then a proposal's. Null if the answer was over
  // before the end of that path, or left the grammar: a token drawn there is never committed. Valid until the next call
  // on any answer. Errors: as GrammarState::step.
  const TokenMask* mask_after(std::span<const std::int32_t> answer);
  // Adds a token that a mask allowed; true when the answer is a document that cannot be continued.
  bool commit(std::int32_t token);

 private:
  struct Stop {
    std::int32_t token;
    GrammarState state;  // after it
  };
  GrammarState state_behind(const GrammarState& before, std::int32_t token) const;

  std::shared_ptr<const Grammar> grammar_;
  TokenMasks& masks_;
  std::size_t n_committed_ = 0;
  GrammarState committed_;
  std::vector<Stop> ahead_;  // from the first uncommitted token on
};

}  // namespace slip
