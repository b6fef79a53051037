// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/distribution.h"
#include "engine/speculative/lookup/ngram_index.h"
#include "engine/speculative/lookup/past_answers.h"
#include "engine/speculative/lookup/predicted_text.h"

namespace slip {

// Prompt lookup (Saxena, 2023): guesses the next token from the request's own text, since answers repeat their prompts
// and themselves. Finds the longest earlier n-gram equal to the end of the text; the token after it is the guess. Past
// answers are searched likewise, and a request may predict its answer. Of these guesses the likeliest counts, by the
// hit rate of its class on the growing answer, which starts from that of past requests. It also learns when to trust
// the guess rather than a draft that differs. Threads: one owner. Memory: that of an NgramIndex.
class PromptLookup {
 public:
  struct Guess {
    std::int32_t token = -1;    // −1: no earlier n-gram matches
    double rate = 0;            // P(the token is right), whatever a draft says
    std::size_t kind = 0;       // its class, below GuessOrDraft::kGuessClasses
    bool by_one_token = false;  // no two tokens before it were found: good beside a draft, not alone
    bool is_confident() const { return rate >= 0.5; }
    bool is_sure() const { return rate >= 0.9; }  // a draft's opinion is not worth a pass
    // The rate as a class, 0 to 3.
    int confidence() const { return rate < 0.35 ? 0 : rate < 0.6 ? 1 : rate < 0.8 ? 2 : 3; }
  };
  // The draft's view of a place that also has a guess.
  struct DraftChoice {
    std::int32_t token = -1;       // the draft's most likely token
    double q = 0, q_of_guess = 0;  // its probabilities of that token and of the guess
  };

  // `prediction`: a text that the answer probably repeats; empty: none. Copied. `past`: null: none; it also learns from
  // this request. Outlives this object.
  explicit PromptLookup(std::span<const std::int32_t> prediction = {}, PastAnswers* past = nullptr)
      : past_(past), predicted_(prediction) {}

  // Reads the tokens added since the last call; `tokens` is the prompt, then the answer so far.
  void extend(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens);
  // Reads `tokens` likewise, and guesses the token that follows.
  Guess after(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens) {
    extend(tokens, prompt_tokens);
    return guess(tokens);
  }
  // Guesses the token after `committed`, which extend() has read, and `proposed`.
  Guess guess(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed = {}) const;

  // Whether the guess is likelier right than the draft's token.
  bool beats(const Guess& guess, const DraftChoice& choice) const;
  // The w of mix_guess() for tokens that are drawn, 0 to 1.
  double weight(const Guess& guess, const DraftChoice& choice) const;
  // Reports the draft's view after `proposed`, and that `token` was proposed. beats() and weight() learn from it once
  // the tokens up to there are read.
  void add_drafted(const Guess& guess, const DraftChoice& choice, std::span<const std::int32_t> proposed,
                   std::int32_t token);

 private:
  template <std::size_t n>
  using Rates = std::array<HitRate, n>;
  struct Drafted {
    Guess guess;
    DraftChoice choice;
    std::int32_t token = -1;  // proposed
  };
  Guess from_own_text(const NgramIndex::Match& match) const;
  Guess from_past_answers(const NgramIndex::Match& match) const;
  Guess from_prediction(const PredictedText::Guess& guess) const;
  const GuessOrDraft& guess_or_draft() const { return past_ == nullptr ? guess_or_draft_ : past_->guess_or_draft; }
  void learn_rates(std::span<const std::int32_t> before, std::int32_t next);
  void learn_choices(std::span<const std::int32_t> new_tokens);

  NgramIndex own_;  // of the tokens read
  std::size_t n_read_ = 0;
  PastAnswers* past_;
  PredictedText predicted_;
  std::vector<Drafted> drafted_;  // after the tokens read, by depth
  // Hit rates on this answer alone.
  Rates<PastAnswers::kLengths> own_rates_, predicted_rates_;  // [PastAnswers::length_class()]
  Rates<PastAnswers::kClasses> past_rates_;                   // [PastAnswers::class_of()]
  GuessOrDraft guess_or_draft_;                               // used without past answers
};

// The DraftChoice of a guess, from a draft's logits [vocab] or probabilities. If the draft's most likely token is the
// guess, both probabilities are 1. Pure.
PromptLookup::DraftChoice draft_choice_of(std::span<const float> logits, std::int32_t guess);
PromptLookup::DraftChoice draft_choice_of(const Distribution& q, std::int32_t guess);

// q ← (1 − w) q + w [guess], for tokens that are drawn from q. Pure.
void mix_guess(std::int32_t guess, double w, Distribution& q);

}  // namespace slip
