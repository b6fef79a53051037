// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

// Follows an answer through a text that it probably repeats, such as the file that it edits (OpenAI's `prediction`).
// While the answer follows the text, the text's next token is the guess. Where the answer differs, one token counts as
// replaced. If the next one differs too, the place is searched: the text before it must agree with the answer's last
// tokens, at least two of them. The longest agreement wins, and of equal ones the nearest place. All results depend on
// the tokens alone. Threads: one owner. Cost of a token: O(1), or that of comparing it with 8,192 tokens while the
// place is lost.
class PredictedText {
 public:
  struct Guess {
    std::int32_t token = -1;   // −1: none
    std::int32_t n_right = 0;  // tokens before it that followed the text, at most kMostCounted
  };
  static constexpr std::int32_t kMostCounted = 8;

  explicit PredictedText(std::span<const std::int32_t> tokens) : tokens_(tokens.begin(), tokens.end()) {}

  // The guess of the token after the answer that read() has seen, followed by `proposed`.
  Guess guess(std::span<const std::int32_t> proposed = {}) const;
  // Reads the last token of `answer`, which has one token more than at the last call.
  void read(std::span<const std::int32_t> answer);

 private:
  static constexpr std::int32_t kLost = -1;
  void find_again(std::span<const std::int32_t> answer);

  std::vector<std::int32_t> tokens_;
  std::size_t at_ = 0;  // of the token that should come next; tokens_.size(): none
  // Tokens before it that followed the text. The answer's beginning is taken for the text's.
  std::int32_t n_right_ = kMostCounted;
};

}  // namespace slip
