// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/prompt_lookup.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

// Hit rates before any guess, by class. Only past answers are matched by one token, the first of each group.
constexpr double kOwnPrior[PastAnswers::kLengths] = {0.1, 0.25, 0.4, 0.55, 0.7},
                 kPredictedPrior[PastAnswers::kLengths] = {0.4, 0.4, 0.6, 0.8, 0.9},
                 kPastPrior[PastAnswers::kClasses] = {0.2,  0.4, 0.4, 0.45, 0.75,   // one place
                                                      0.15, 0.3, 0.2, 0.2,  0.1,    // several that disagree
                                                      0.5,  0.6, 0.8, 0.85, 0.85};  // several that agree
// Weight per hit rate, before it was learned where a draft says something else: below 1, since that tells something.
constexpr double kTrust = 0.6;
constexpr std::size_t kFirstPast = PastAnswers::kLengths, kFirstPredicted = kFirstPast + PastAnswers::kClasses;
static_assert(kFirstPredicted + PastAnswers::kLengths == GuessOrDraft::kGuessClasses);

}  // namespace

PromptLookup::Guess PromptLookup::from_own_text(const NgramIndex::Match& match) const {
  if (match.length == 0) return {};
  const std::size_t kind = PastAnswers::length_class(match.length);
  const double prior = past_ == nullptr ? kOwnPrior[kind] : past_->own_rates[kind].rate(kOwnPrior[kind]);
  return {match.token, own_rates_[kind].rate(prior), kind};
}

PromptLookup::Guess PromptLookup::from_past_answers(const NgramIndex::Match& match) const {
  if (match.length == 0) return {};
  const std::size_t kind = PastAnswers::class_of(match);
  const double prior = past_->past_rates[kind].rate(kPastPrior[kind]);
  return {match.token, past_rates_[kind].rate(prior), kFirstPast + kind, match.length == 1};
}

PromptLookup::Guess PromptLookup::from_prediction(const PredictedText::Guess& guess) const {
  if (guess.token < 0) return {};
  const std::size_t kind = PastAnswers::length_class(guess.n_right);
  return {guess.token, predicted_rates_[kind].rate(kPredictedPrior[kind]), kFirstPredicted + kind};
}

// Compares the guesses after `before` with the token that came.
void PromptLookup::learn_rates(std::span<const std::int32_t> before, std::int32_t next) {
  const NgramIndex::Match own = own_.latest_longest(before);
  if (own.length > 0) {
    const std::size_t kind = PastAnswers::length_class(own.length);
    own_rates_[kind].add(own.token == next);
    if (past_ != nullptr) past_->own_rates[kind].add(own.token == next);
  }
  if (past_ != nullptr) {
    const NgramIndex::Match past = past_->longest(before, {});
    const std::size_t kind = PastAnswers::class_of(past);
    if (past.length > 0) past_rates_[kind].add(past.token == next), past_->past_rates[kind].add(past.token == next);
  }
  const PredictedText::Guess predicted = predicted_.guess();
  if (predicted.token >= 0) predicted_rates_[PastAnswers::length_class(predicted.n_right)].add(predicted.token == next);
}

bool PromptLookup::beats(const Guess& guess, const DraftChoice& choice) const {
  const double w = kTrust * guess.rate;
  return guess_or_draft().guess_rate(guess.kind, w, choice.q, choice.q_of_guess) >
         guess_or_draft().draft_rate(guess.kind, w, choice.q, choice.q_of_guess);
}

double PromptLookup::weight(const Guess& guess, const DraftChoice& choice) const {
  const double w = kTrust * guess.rate;
  if (guess.token == choice.token || choice.q_of_guess >= 1) return w;
  const double rate = guess_or_draft().guess_rate(guess.kind, w, choice.q, choice.q_of_guess);
  return std::max(0.0, (rate - choice.q_of_guess) / (1 - choice.q_of_guess));  // the mixture then gives it this rate
}

void PromptLookup::add_drafted(const Guess& guess, const DraftChoice& choice, std::span<const std::int32_t> proposed,
                               std::int32_t token) {
  drafted_.resize(std::min(proposed.size(), drafted_.size()));
  drafted_.push_back({guess, choice, token});
}

// Compares what was drafted with the tokens that came. Places after a rejected token were never reached.
void PromptLookup::learn_choices(std::span<const std::int32_t> new_tokens) {
  GuessOrDraft& table = past_ == nullptr ? guess_or_draft_ : past_->guess_or_draft;
  for (std::size_t i = 0; i < std::min(new_tokens.size(), drafted_.size()); ++i) {
    const auto& [guess, choice, proposed] = drafted_[i];
    const std::int32_t came = new_tokens[i];
    if (guess.token >= 0 && guess.token != choice.token) {
      table.add(guess.kind, choice.q - choice.q_of_guess, guess.token == came, choice.token == came);
    }
    if (proposed != came) break;
  }
  drafted_.clear();
}

void PromptLookup::extend(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens) {
  SLIP_CHECK(tokens.size() >= n_read_, "committed tokens are never taken back");
  if (!own_.can_grow()) own_ = NgramIndex(NgramIndex::kMostTokens, tokens.size());
  if (tokens.size() > n_read_) learn_choices(tokens.subspan(n_read_));
  const auto n_prompt = static_cast<std::size_t>(prompt_tokens);
  for (; n_read_ < tokens.size(); ++n_read_) {
    if (n_read_ >= n_prompt) {
      learn_rates(tokens.first(n_read_), tokens[n_read_]);
      predicted_.read(tokens.subspan(n_prompt, n_read_ + 1 - n_prompt));
    }
    own_.append(tokens[n_read_]);
  }
}

PromptLookup::Guess PromptLookup::guess(std::span<const std::int32_t> committed,
                                        std::span<const std::int32_t> proposed) const {
  Guess best = from_own_text(own_.latest_longest(committed, proposed));
  const auto keep = [&](const Guess& other) {
    if (other.rate > best.rate) best = other;
  };
  keep(from_prediction(predicted_.guess(proposed)));
  if (past_ != nullptr) keep(from_past_answers(past_->longest(committed, proposed)));
  return best;
}

PromptLookup::DraftChoice draft_choice_of(std::span<const float> logits, std::int32_t guess) {
  const auto best = static_cast<std::int32_t>(kernels::argmax(logits));
  if (best == guess) return {best, 1, 1};
  const double normalizer = log_normalizer(logits);
  const auto q = [&](std::int32_t token) { return std::exp(logits[static_cast<std::size_t>(token)] - normalizer); };
  return {best, q(best), q(guess)};
}

PromptLookup::DraftChoice draft_choice_of(const Distribution& q, std::int32_t guess) {
  const auto best = std::max_element(q.probabilities.begin(), q.probabilities.end());
  const std::int32_t token = q.ids[static_cast<std::size_t>(best - q.probabilities.begin())];
  if (token == guess) return {token, 1, 1};
  return {token, *best, q.probability(guess)};
}

void mix_guess(std::int32_t guess, double w, Distribution& q) {
  const auto place = std::lower_bound(q.ids.begin(), q.ids.end(), guess);
  const auto at = place - q.ids.begin();
  if (place == q.ids.end() || *place != guess) {
    q.ids.insert(place, guess);
    q.probabilities.insert(q.probabilities.begin() + at, 0.0);
  }
  for (double& probability : q.probabilities) probability *= 1 - w;
  q.probabilities[static_cast<std::size_t>(at)] += w;
}

}  // namespace slip
