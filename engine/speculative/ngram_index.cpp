// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/ngram_index.h"

#include <algorithm>
#include <array>
#include <bit>

namespace slip {
namespace {

constexpr int kMostLooked = 32;  // earlier places compared
constexpr std::size_t kLeastSlots = 256, kMostSlots = 131072;

}  // namespace

NgramIndex::NgramIndex(std::size_t most_tokens, std::size_t expected_tokens)
    : mask_(std::bit_ceil(std::clamp(most_tokens, std::size_t{4}, kMostTokens)) - 1),
      latest_(std::bit_ceil(std::clamp(2 * expected_tokens, kLeastSlots, kMostSlots)), -1) {}

std::size_t NgramIndex::slot_of(std::int32_t first, std::int32_t second) const {
  const auto pair =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32U | static_cast<std::uint32_t>(second);
  const std::uint64_t mixed = pair * 0x9E3779B97F4A7C15U;  // Fibonacci hashing: the upper bits are the mixed ones
  return static_cast<std::size_t>(mixed >> 32U) & (latest_.size() - 1);
}

std::int32_t NgramIndex::first() const {
  return n_ - static_cast<std::int32_t>(tokens_.size());
}

void NgramIndex::append(std::int32_t token) {
  if (n_ == static_cast<std::int32_t>(kMostTokens)) {  // positions would overflow: start anew
    std::fill(latest_.begin(), latest_.end(), -1);
    tokens_.clear();
    earlier_.clear();
    n_ = 0;
  }
  const std::int32_t at = n_++;
  if (tokens_.size() <= mask_) {
    tokens_.push_back(token);
    earlier_.push_back(-1);
  } else {
    token_at(at) = token;
  }
  std::int32_t& earlier = earlier_[static_cast<std::size_t>(at) & mask_];
  earlier = -1;
  if (at < 2 || token < 0 || token_at(at - 1) < 0 || token_at(at - 2) < 0) return;
  std::int32_t& latest = latest_[slot_of(token_at(at - 2), token_at(at - 1))];
  earlier = latest;
  latest = at;
}

// Calls take(length, token that followed) from the latest place on, until it returns false.
template <class Take>
void NgramIndex::for_each_match(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed,
                                const Take& take) const {
  const auto n = static_cast<std::int32_t>(committed.size() + proposed.size());
  if (n < 2 || !can_grow()) return;
  const auto back = [&](std::int32_t i) {
    const auto at = static_cast<std::size_t>(n - 1 - i);
    return at < committed.size() ? committed[at] : proposed[at - committed.size()];
  };
  std::int32_t follower = latest_[slot_of(back(1), back(0))];
  for (int looked = 0; follower >= first() + 2 && looked < kMostLooked; ++looked) {
    const std::int32_t most = std::min({kLongest, n, follower - first()});
    std::int32_t length = 0;
    while (length < most && token_at(follower - 1 - length) == back(length)) ++length;
    if (length >= 2 && !take(length, token_at(follower))) return;  // shorter: a hash collision
    follower = earlier_[static_cast<std::size_t>(follower) & mask_];
  }
}

NgramIndex::Match NgramIndex::latest_longest(std::span<const std::int32_t> committed,
                                             std::span<const std::int32_t> proposed) const {
  Match best;
  for_each_match(committed, proposed, [&](std::int32_t length, std::int32_t token) {
    if (length > best.length) best = {length, token, 1, 1};
    return length < kLongest;
  });
  return best;
}

NgramIndex::Match NgramIndex::longest(std::span<const std::int32_t> committed,
                                      std::span<const std::int32_t> proposed) const {
  std::array<std::int32_t, kMostLooked> followers;  // of the longest n-gram, latest first
  std::int32_t longest = 0, n = 0;
  for_each_match(committed, proposed, [&](std::int32_t length, std::int32_t token) {
    if (length < longest) return true;
    if (length > longest) longest = length, n = 0;
    followers[static_cast<std::size_t>(n++)] = token;
    return true;
  });
  Match best{longest, -1, n, 0};
  const auto end = followers.begin() + n;
  for (auto place = followers.begin(); place != end; ++place) {
    const auto votes = static_cast<std::int32_t>(std::count(place, end, *place));
    if (votes > best.n_agree) best.token = *place, best.n_agree = votes;
  }
  return best;
}

}  // namespace slip
