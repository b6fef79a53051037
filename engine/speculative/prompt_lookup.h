// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/distribution.h"

namespace slip {

// What the text of a request says about its own next token: answers repeat their prompts and themselves. The longest
// stretch of earlier text that ends as the text ends now is found, and what followed it is the guess (prompt lookup,
// Saxena, 2023). How far it is to be believed is measured on the answer as it grows, by the stretch's length.
// Everything depends on the tokens alone. Threads: one owner. Memory: 4 bytes a token, and 128 KiB at most.
class PromptLookup {
 public:
  struct Guess {
    std::int32_t token = -1;  // −1: the text never ended like this before
    double weight = 0;        // 0 to 1: the share that the guess shall have in a draft's distribution
    bool is_confident() const { return weight >= 0.3; }  // right more often than not
  };

  // Reads what `tokens`, the prompt and then the answer so far, has more than at the last call.
  void extend(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens);
  // Reads `tokens` likewise, and says what follows them.
  Guess after(std::span<const std::int32_t> tokens, std::int32_t prompt_tokens) {
    extend(tokens, prompt_tokens);
    return guess(tokens);
  }
  // What follows `committed`, which extend() has read, and then `proposed`.
  Guess guess(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed = {}) const;

 private:
  static constexpr std::size_t kClasses = 4;
  struct Match {
    std::int32_t token = -1, length = 0;
  };
  struct Record {
    double right = 0, all = 0;
  };
  Match longest(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed) const;
  void index(std::span<const std::int32_t> tokens, std::size_t end);
  std::size_t slot_of(std::int32_t first, std::int32_t second) const;
  static std::size_t class_of(std::int32_t length);

  std::vector<std::int32_t> latest_;   // [power of two] by a pair's hash: where its second token stood last, or −1
  std::vector<std::int32_t> earlier_;  // [n_read] of the pair that ends there: where one of its hash ended before
  std::size_t n_read_ = 0;
  std::array<Record, kClasses> records_;  // by the stretch's length
};

// q ← (1 − w) q + w [guess], for tokens that are drawn from q. Where `processed`, what the request's own logits
// processors left is all that may be proposed: a guess outside of q changes nothing. Pure.
void mix_guess(const PromptLookup::Guess& guess, bool processed, Distribution& q);

// The same of a greedy draft: the token of the greatest (1 − w) softmax(logits) + w [guess]. Pure.
std::int32_t greedy_with_guess(std::span<const float> logits, const PromptLookup::Guess& guess);

}  // namespace slip
