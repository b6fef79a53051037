// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/prompt_lookup.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/error.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

constexpr std::int32_t kLongest = 8;  // tokens compared: a longer match is no better a guess
constexpr int kMostLooked = 32;       // earlier positions compared per bigram
constexpr std::size_t kLeastSlots = 256, kMostSlots = 32768;
// Prior hit rates by class_of(), and the number of guesses that a prior counts for.
constexpr double kPrior[] = {0.25, 0.4, 0.55, 0.7}, kPredictedPrior[] = {0.4, 0.6, 0.8, 0.9};
constexpr double kPriorGuesses = 4;
// Weight per hit rate: below 1, since a draft that disagrees carries information too.
constexpr double kTrust = 0.6;

}  // namespace

std::size_t PromptLookup::class_of(std::int32_t length) {
  return length <= 2 ? 0 : length == 3 ? 1 : length <= 5 ? 2 : 3;
}

void PromptLookup::Record::add(bool was_right) {
  all += 1;
  right += was_right ? 1 : 0;
}

double PromptLookup::Record::weight(double prior) const {
  return kTrust * (right + kPriorGuesses * prior) / (all + kPriorGuesses);
}

PromptLookup::Guess PromptLookup::weighed(const Match& match) const {
  if (match.length == 0) return {};
  const std::size_t kind = class_of(match.length);
  return {match.token, records_[kind].weight(kPrior[kind])};
}

PromptLookup::Guess PromptLookup::weighed(const PredictedText::Guess& guess) const {
  if (guess.token < 0) return {};
  const std::size_t kind = class_of(guess.n_right);
  return {guess.token, predicted_records_[kind].weight(kPredictedPrior[kind])};
}

std::size_t PromptLookup::slot_of(std::int32_t first, std::int32_t second) const {
  const auto pair =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32U | static_cast<std::uint32_t>(second);
  const std::uint64_t mixed = pair * 0x9E3779B97F4A7C15U;  // Fibonacci hashing: the upper bits are the mixed ones
  return static_cast<std::size_t>(mixed >> 32U) & (latest_.size() - 1);
}

// Adds the bigram that ends at `end` − 1; token `end` is the one that followed it.
void PromptLookup::index(std::span<const std::int32_t> tokens, std::size_t end) {
  earlier_.push_back(-1);
  if (end < 2) return;
  std::int32_t& latest = latest_[slot_of(tokens[end - 2], tokens[end - 1])];
  earlier_.back() = latest;
  latest = static_cast<std::int32_t>(end - 1);
}

void PromptLookup::extend(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens) {
  SLIP_CHECK(tokens.size() >= n_read_, "committed tokens are never taken back");
  if (latest_.empty()) latest_.assign(std::bit_ceil(std::clamp(2 * tokens.size(), kLeastSlots, kMostSlots)), -1);
  const auto n_prompt = static_cast<std::size_t>(prompt_tokens);
  for (; n_read_ < tokens.size(); ++n_read_) {
    if (n_read_ >= n_prompt) {
      const Match match = longest(tokens.first(n_read_), {});
      if (match.length > 0) records_[class_of(match.length)].add(match.token == tokens[n_read_]);
      const PredictedText::Guess predicted = predicted_.guess();
      if (predicted.token >= 0) predicted_records_[class_of(predicted.n_right)].add(predicted.token == tokens[n_read_]);
      predicted_.read(tokens.subspan(n_prompt, n_read_ + 1 - n_prompt));
    }
    if (n_read_ > 0) index(tokens, n_read_);
  }
}

// The longest match; of equally long ones the latest.
PromptLookup::Match PromptLookup::longest(std::span<const std::int32_t> committed,
                                          std::span<const std::int32_t> proposed) const {
  const auto n = static_cast<std::int32_t>(committed.size() + proposed.size());
  Match best;
  if (n < 2 || latest_.empty()) return best;
  const auto token = [&](std::int32_t i) {
    const auto at = static_cast<std::size_t>(i);
    return at < committed.size() ? committed[at] : proposed[at - committed.size()];
  };
  std::int32_t end = latest_[slot_of(token(n - 2), token(n - 1))];
  for (int looked = 0; end > 0 && looked < kMostLooked; ++looked, end = earlier_[static_cast<std::size_t>(end)]) {
    const std::int32_t most = std::min(kLongest, end + 1);
    std::int32_t length = 0;
    while (length < most && token(end - length) == token(n - 1 - length)) ++length;
    if (length < 2 || length <= best.length) continue;  // a hash collision, or no longer match
    best = {token(end + 1), length};
    if (length == kLongest) break;
  }
  return best;
}

PromptLookup::Guess PromptLookup::guess(std::span<const std::int32_t> committed,
                                        std::span<const std::int32_t> proposed) const {
  const Guess repeated = weighed(longest(committed, proposed)), predicted = weighed(predicted_.guess(proposed));
  return predicted.weight > repeated.weight ? predicted : repeated;
}

void mix_guess(const PromptLookup::Guess& guess, bool processed, Distribution& q) {
  if (guess.token < 0) return;
  const auto place = std::lower_bound(q.ids.begin(), q.ids.end(), guess.token);
  const auto at = place - q.ids.begin();
  if (place == q.ids.end() || *place != guess.token) {
    if (processed) return;
    q.ids.insert(place, guess.token);
    q.probabilities.insert(q.probabilities.begin() + at, 0.0);
  }
  for (double& probability : q.probabilities) probability *= 1 - guess.weight;
  q.probabilities[static_cast<std::size_t>(at)] += guess.weight;
}

std::int32_t greedy_with_guess(std::span<const float> logits, const PromptLookup::Guess& guess) {
  const auto best = static_cast<std::int32_t>(kernels::argmax(logits));
  if (guess.token < 0 || guess.token == best) return best;
  const double lead = guess.weight / (1 - guess.weight);  // least lead of the draft's choice over the guess
  if (lead >= 1) return guess.token;
  const double normalizer = log_normalizer(logits);
  const auto q = [&](std::int32_t token) { return std::exp(logits[static_cast<std::size_t>(token)] - normalizer); };
  return q(best) - q(guess.token) < lead ? guess.token : best;
}

}  // namespace slip
