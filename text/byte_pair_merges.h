// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip {

struct Merge {
  std::int32_t left = 0, right = 0, result = 0;
};

// Byte-pair encoding (Sennrich et al., 2016): repeatedly merges the adjacent pair of lowest rank, leftmost first. O(n
// log n) in the piece's length, so a megabyte of one letter is not an attack. Immutable.
class BytePairMerges {
 public:
  // A merge's rank is its index. REQUIRES: ids ≥ 0, pairs distinct.
  explicit BytePairMerges(std::vector<Merge> merges);

  // Working memory of merge(), reused by the caller for several pieces.
  struct Scratch {
    struct Symbol {
      std::int32_t id = 0, previous = 0, next = 0;  // next and previous: index, or −1; id −1: merged away
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> queue;  // rank << 32 | index of the left symbol
  };
  // Merges `symbols` (one id per byte, at most 2^31) and appends the resulting ids to `out`.
  void merge(std::span<const std::int32_t> symbols, Scratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  std::uint32_t rank_of(std::int32_t left, std::int32_t right) const;
  void enqueue(Scratch& scratch, std::int32_t left) const;
  void apply(Scratch& scratch, std::int32_t left, std::int32_t result) const;

  // An open-addressing hash table of pairs, at most half full. A look-up touches one or two cache lines;
  // std::unordered_map needs three.
  struct Slot {
    std::uint64_t pair = 0;
    std::uint32_t rank = kNone;
  };
  std::vector<Merge> merges_;
  std::vector<Slot> slots_;
  int shift_ = 0;
};

}  // namespace slip
