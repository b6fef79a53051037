// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slip {

// An index of a growing text that finds where the last tokens of another text, or of its own, occurred in it: the
// longest n-gram of `shortest` to 8 tokens, and the token that followed. It holds up to `most_tokens` tokens; then each
// new one replaces the oldest. Threads: one owner. Memory: 8 bytes per token, and 8 per token of `expected_tokens`, at
// most 256 KiB; 12, 16 and 512 KiB if `shortest` is 1. Cost: append() O(1), longest() O(1).
class NgramIndex {
 public:
  static constexpr std::int32_t kLongest = 8;     // tokens compared: a longer match is no better a guess
  static constexpr std::int32_t kSeparator = -1;  // appended between two texts; no n-gram reaches across it
  static constexpr std::size_t kMostTokens = std::size_t{1} << 30U;

  // The token that followed the longest n-gram. If it occurred several times, the last 32 places compared vote, and of
  // equally frequent tokens the latest wins. Places of one token count only where none of two tokens was found.
  struct Match {
    std::int32_t length = 0;                 // 0: none was found
    std::int32_t token = -1;                 // the one that followed
    std::int32_t n_places = 0, n_agree = 0;  // places of this n-gram, and those followed by `token`
  };

  NgramIndex() = default;  // empty, and stays so until it is assigned another
  // `most_tokens` is rounded up to a power of two; `shortest`: 1 or 2 tokens.
  NgramIndex(std::size_t most_tokens, std::size_t expected_tokens, std::int32_t shortest = 2);

  bool can_grow() const { return !pairs_.latest.empty(); }
  // Adds a token that followed those before it.
  void append(std::int32_t token);
  // Adds a token that is only context: n-grams may reach back to it, but it is no token that followed.
  void append_context(std::int32_t token);
  // Looks up the end of `committed` followed by `proposed`.
  Match longest(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed = {}) const;
  // The same without a vote: of equal n-grams the latest, and the first one of eight tokens at once.
  Match latest_longest(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed = {}) const;

 private:
  // The places that followed one token, or two, chained by the hash of those tokens.
  struct Places {
    std::vector<std::int32_t> latest;   // [power of two] by hash: position of the token that followed last
    std::vector<std::int32_t> earlier;  // [like tokens_] for the token here: position of an earlier one that followed
                                        // tokens of the same hash, or −1
    std::size_t slot(std::uint64_t key) const;  // in `latest`
  };
  // The last one or two tokens as a key of `ones_` or `pairs_`.
  static std::uint64_t key_of(std::int32_t last) { return static_cast<std::uint32_t>(last); }
  static std::uint64_t key_of(std::int32_t before, std::int32_t last) { return key_of(before) << 32U | key_of(last); }

  template <class Take>
  void for_each_match(std::span<const std::int32_t> committed, std::span<const std::int32_t> proposed,
                      const Take& take) const;
  void start_anew();
  std::int32_t& token_at(std::int32_t at) { return tokens_[index_of(at)]; }
  std::int32_t token_at(std::int32_t at) const { return tokens_[index_of(at)]; }
  std::size_t index_of(std::int32_t at) const { return static_cast<std::size_t>(at) & mask_; }
  std::int32_t first() const;  // position of the oldest token held

  std::size_t mask_ = 0;              // positions wrap around beyond it
  std::int32_t n_ = 0;                // tokens appended
  std::vector<std::int32_t> tokens_;  // [min(n, most_tokens)]
  Places ones_, pairs_;               // ones_ is empty where the shortest n-gram has two tokens
};

}  // namespace slip
