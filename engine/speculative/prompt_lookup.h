// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/distribution.h"
#include "engine/speculative/predicted_text.h"

namespace slip {

// Prompt lookup (Saxena, 2023): guesses the next token from the request's own text, since answers repeat their prompts
// and themselves. Finds the longest earlier n-gram equal to the end of the text; the token after it is the guess. A
// request may also predict its answer; of the two guesses, the one with more weight counts. The weight of a guess
// follows the hit rate measured on the growing answer, by n-gram length. All results depend on the tokens alone.
// Threads: one owner. Memory: 4 bytes per token, and at most 128 KiB.
class PromptLookup {
 public:
  struct Guess {
    std::int32_t token = -1;                             // −1: no earlier n-gram matches
    double weight = 0;                                   // 0 to 1: the share of the guess in a draft's distribution
    bool is_confident() const { return weight >= 0.3; }  // right more often than wrong
  };

  // `prediction`: a text that the answer probably repeats; empty: none. Copied.
  explicit PromptLookup(std::span<const std::int32_t> prediction = {}) : predicted_(prediction) {}

  // Reads the tokens added since the last call; `tokens` is the prompt, then the answer so far.
  void extend(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens);
  // Reads `tokens` likewise, and guesses the token that follows.
  Guess after(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens) {
    extend(tokens, prompt_tokens);
    return guess(tokens);
  }
  // Guesses the token after `committed`, which extend() has read, and `proposed`.
  Guess guess(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed = {}) const;

 private:
  static constexpr std::size_t kClasses = 4;
  struct Match {
    std::int32_t token = -1, length = 0;
  };
  struct Record {
    double right = 0, all = 0;
    void add(bool was_right);
    double weight(double prior) const;  // of a guess of this class
  };
  Guess weighed(const Match& match) const;
  Guess weighed(const PredictedText::Guess& guess) const;
  Match longest(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed) const;
  void index(std::span<const std::int32_t> tokens, std::size_t end);
  std::size_t slot_of(std::int32_t first, std::int32_t second) const;
  static std::size_t class_of(std::int32_t length);

  std::vector<std::int32_t> latest_;  // [power of two] by a bigram's hash: latest position of its second token, or −1
  std::vector<std::int32_t> earlier_;  // [n_read] for the bigram that ends here: the previous end of one with the same
                                       // hash, or −1
  std::size_t n_read_ = 0;
  std::array<Record, kClasses> records_;  // by n-gram length
  PredictedText predicted_;
  std::array<Record, kClasses> predicted_records_;  // by PredictedText::Guess::n_right
};

// q ← (1 − w) q + w [guess], for tokens that are drawn from q. If `processed`, only tokens that the request's logits
// processors left may be proposed: a guess outside of q's support changes nothing. Pure.
void mix_guess(const PromptLookup::Guess& guess, bool processed, Distribution& q);

// The same for a greedy draft: the token that maximizes (1 − w) softmax(logits) + w [guess]. Pure.
std::int32_t greedy_with_guess(std::span<const float> logits, const PromptLookup::Guess& guess);

}  // namespace slip
