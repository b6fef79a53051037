// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup/ngram_index.h"

#include <algorithm>
#include <array>
#include <bit>

namespace slip {
namespace {

constexpr int kMostLooked = 32;  // earlier places compared
constexpr std::size_t kLeastSlots = 256, kMostSlots = 65536;

}  // namespace

NgramIndex::NgramIndex(std::size_t most_tokens, std::size_t expected_tokens, std::int32_t shortest)
    : mask_(std::bit_ceil(std::clamp(most_tokens, std::size_t{4}, kMostTokens)) - 1) {
  pairs_.latest.assign(std::bit_ceil(std::clamp(2 * expected_tokens, kLeastSlots, kMostSlots)), -1);
  if (shortest == 1) ones_.latest = pairs_.latest;
}

// Fibonacci hashing: the upper bits are the mixed ones.
std::size_t NgramIndex::Places::slot(std::uint64_t key) const {
  return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> 32U) & (latest.size() - 1);
}

std::int32_t NgramIndex::first() const {
  return n_ - static_cast<std::int32_t>(tokens_.size());
}

void NgramIndex::start_anew() {
  for (Places* places : {&ones_, &pairs_}) {
    std::fill(places->latest.begin(), places->latest.end(), -1);
    places->earlier.clear();
  }
  tokens_.clear();
  n_ = 0;
}

void NgramIndex::append_context(std::int32_t token) {
  if (n_ == static_cast<std::int32_t>(kMostTokens)) start_anew();  // positions would overflow
  const bool grows = tokens_.size() <= mask_;
  if (grows) tokens_.push_back(token);
  const std::int32_t at = n_++;
  token_at(at) = token;
  for (Places* places : {&ones_, &pairs_}) {
    if (places->latest.empty()) continue;
    if (grows) places->earlier.push_back(-1);
    places->earlier[index_of(at)] = -1;
  }
}

void NgramIndex::append(std::int32_t token) {
  append_context(token);
  const std::int32_t at = n_ - 1;
  const auto follow = [at, this](Places& places, std::uint64_t key) {
    if (places.latest.empty()) return;
    std::int32_t& latest = places.latest[places.slot(key)];
    places.earlier[index_of(at)] = latest;
    latest = at;
  };
  if (at < 1 || token < 0 || token_at(at - 1) < 0) return;
  follow(ones_, key_of(token_at(at - 1)));
  if (at < 2 || token_at(at - 2) < 0) return;
  follow(pairs_, key_of(token_at(at - 2), token_at(at - 1)));
}

// Calls take(length, token that followed) from the latest place on, until it returns false.
template <class Take>
void NgramIndex::for_each_match(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed,
                                const Take& take) const {
  const auto n = static_cast<std::int32_t>(committed.size() + proposed.size());
  if (n < 1 || !can_grow()) return;
  const auto back = [&](std::int32_t i) {
    const auto at = static_cast<std::size_t>(n - 1 - i);
    return at < committed.size() ? committed[at] : proposed[at - committed.size()];
  };
  bool found = false;
  const auto look_at = [&](const Places& places, std::uint64_t key, std::int32_t least) {
    std::int32_t follower = places.latest[places.slot(key)];
    for (int looked = 0; follower >= first() + least && looked < kMostLooked; ++looked) {
      const std::int32_t most = std::min({kLongest, n, follower - first()});
      std::int32_t length = 0;
      while (length < most && token_at(follower - 1 - length) == back(length)) ++length;
      found |= length >= least;
      if (length >= least && !take(length, token_at(follower))) return;  // shorter: a hash collision
      follower = places.earlier[index_of(follower)];
    }
  };
  if (n >= 2) look_at(pairs_, key_of(back(1), back(0)), 2);
  if (!found && !ones_.latest.empty()) look_at(ones_, key_of(back(0)), 1);
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
