// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/grammar/token_masks.h"

namespace slip {

// One answer's way through its grammar: the state behind its committed tokens, and the states along the path that was
// last asked for, so that the rows of a proposal, and of the verification after it, cost one step each. A path that
// branches off falls back to where it does. Threads: the engine's only.
class AnswerGrammar {
 public:
  // `masks` outlives this.
  AnswerGrammar(std::shared_ptr<const Grammar> grammar, TokenMasks& masks);

  // What may follow `answer`: the committed tokens, then a proposal's. Null where the answer was over before the end of
  // that path, or left the grammar: what is drawn there is never committed. Valid until the next call on any answer.
  // Errors: as GrammarState::step.
  const TokenMask* mask_after(std::span<const std::int32_t> answer);
  // Adds a token that a mask allowed; true when the answer is a document to which nothing can be added.
  bool commit(std::int32_t token);

 private:
  struct Stop {
    std::int32_t token;
    GrammarState state;  // behind it
  };
  GrammarState state_behind(const GrammarState& before, std::int32_t token) const;

  std::shared_ptr<const Grammar> grammar_;
  TokenMasks& masks_;
  std::size_t n_committed_ = 0;
  GrammarState committed_;
  std::vector<Stop> ahead_;  // from the first token that is not committed on
};

}  // namespace slip
