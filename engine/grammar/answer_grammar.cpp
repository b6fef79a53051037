// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/answer_grammar.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace slip {

AnswerGrammar::AnswerGrammar(std::shared_ptr<const Grammar> grammar, TokenMasks& masks)
    : grammar_(std::move(grammar)), masks_(masks), committed_(GrammarState::start(*grammar_)) {}

// A token without text, such as an end token, leads to the dead state.
GrammarState AnswerGrammar::state_behind(const GrammarState& before, std::int32_t token) const {
  const std::string_view text = masks_.text(token);
  if (text.empty()) return {};
  GrammarState state = before;
  state.advance(*grammar_, text);
  return state;
}

const TokenMask* AnswerGrammar::mask_after(std::span<const std::int32_t> answer) {
  SLIP_CHECK(answer.size() >= n_committed_, "a path begins with the committed tokens");
  const auto path = answer.subspan(n_committed_);
  std::size_t n_known = 0;
  while (n_known < std::min(path.size(), ahead_.size()) && ahead_[n_known].token == path[n_known]) ++n_known;
  // Drops only states that differ from `path`. States beyond its end may be queried next, since a path's rows come in
  // order.
  if (n_known < path.size()) ahead_.resize(n_known);
  for (; n_known < path.size(); ++n_known) {
    const GrammarState& before = n_known == 0 ? committed_ : ahead_[n_known - 1].state;
    ahead_.push_back({path[n_known], state_behind(before, path[n_known])});
  }
  const GrammarState& state = path.empty() ? committed_ : ahead_[path.size() - 1].state;
  return state.is_over() ? nullptr : &masks_.mask(*grammar_, state);
}

bool AnswerGrammar::commit(std::int32_t token) {
  if (!ahead_.empty() && ahead_.front().token == token) {
    committed_ = std::move(ahead_.front().state);
    ahead_.erase(ahead_.begin());
  } else {
    committed_ = state_behind(committed_, token);
    ahead_.clear();
  }
  ++n_committed_;
  SLIP_CHECK(committed_.is_alive(), "a mask allowed a token that leaves the grammar");
  return committed_.is_over();
}

}  // namespace slip
