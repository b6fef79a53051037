// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/predicted_text.h"

#include <algorithm>

namespace slip {
namespace {

constexpr std::size_t kLeastMatch = 2;  // tokens that must agree to find the place again
constexpr std::size_t kReach = 4096;    // tokens before and after the last place that are searched for it

std::size_t distance(std::size_t a, std::size_t b) {
  return a > b ? a - b : b - a;
}

}  // namespace

PredictedText::Guess PredictedText::guess(std::span<const std::int32_t> proposed) const {
  std::size_t at = at_;
  std::int32_t n_right = n_right_;
  for (const std::int32_t token : proposed) {
    if (n_right == kLost || at == tokens_.size() || tokens_[at] != token) return {};
    ++at;
    n_right = std::min(n_right + 1, kMostCounted);
  }
  if (n_right == kLost || at == tokens_.size()) return {};
  return {tokens_[at], n_right};
}

void PredictedText::read(std::span<const std::int32_t> answer) {
  const bool follows = n_right_ != kLost && at_ < tokens_.size();
  if (follows && tokens_[at_] == answer.back()) {
    ++at_;
    n_right_ = std::min(n_right_ + 1, kMostCounted);
  } else if (follows && n_right_ > 0) {
    ++at_;
    n_right_ = 0;
  } else {
    find_again(answer);
  }
}

// Where nothing matches, at_ stays: the next place is the nearest to it.
void PredictedText::find_again(std::span<const std::int32_t> answer) {
  const auto n_equal = [&](std::size_t end) {
    const std::size_t most = std::min({end, answer.size(), static_cast<std::size_t>(kMostCounted)});
    std::size_t n = 0;
    while (n < most && tokens_[end - 1 - n] == answer[answer.size() - 1 - n]) ++n;
    return n;
  };
  std::size_t longest = 0, found = 0;
  const std::size_t last = std::min(tokens_.size(), at_ + kReach);
  for (std::size_t end = at_ > kReach ? at_ - kReach : 1; end <= last; ++end) {
    const std::size_t n = n_equal(end);
    if (n < longest || (n == longest && distance(end, at_) >= distance(found, at_))) continue;
    longest = n;
    found = end;
  }
  if (longest < kLeastMatch) {
    n_right_ = kLost;
    return;
  }
  at_ = found;
  n_right_ = static_cast<std::int32_t>(longest);
}

}  // namespace slip
