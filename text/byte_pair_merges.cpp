// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pair_merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace slip {

namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

std::uint64_t scrambled(std::uint64_t pair) {
  return pair * 0x9E3779B97F4A7C15ULL;
}

}  // namespace

BytePairMerges::BytePairMerges(std::vector<Merge> merges) : merges_(std::move(merges)) {
  const std::size_t capacity = std::bit_ceil(2 * merges_.size() + 2);
  slots_.resize(capacity);
  shift_ = 64 - std::countr_zero(capacity);
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const std::uint64_t pair = pair_of(merges_[rank].left, merges_[rank].right);
    std::size_t at = scrambled(pair) >> shift_;
    while (slots_[at].rank != kNone) at = (at + 1) & (capacity - 1);
    slots_[at] = {pair, static_cast<std::uint32_t>(rank)};
  }
}

std::uint32_t BytePairMerges::rank_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = scrambled(pair) >> shift_;
  while (slots_[at].rank != kNone) {
    if (slots_[at].pair == pair) return slots_[at].rank;
    at = (at + 1) & (slots_.size() - 1);
  }
  return kNone;
}

void BytePairMerges::enqueue(Scratch& scratch, std::int32_t left) const {
  const std::int32_t right = scratch.symbols[static_cast<std::size_t>(left)].next;
  if (right < 0) return;
  const std::uint32_t rank =
      rank_of(scratch.symbols[static_cast<std::size_t>(left)].id, scratch.symbols[static_cast<std::size_t>(right)].id);
  if (rank == kNone) return;
  scratch.queue.push_back(static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(left));
}

// Replaces the left symbol by `result` and unlinks the right one.
void BytePairMerges::apply(Scratch& scratch, std::int32_t left, std::int32_t result) const {
  auto& kept = scratch.symbols[static_cast<std::size_t>(left)];
  auto& gone = scratch.symbols[static_cast<std::size_t>(kept.next)];
  kept.id = result;
  kept.next = gone.next;
  gone.id = -1;
  if (kept.next >= 0) scratch.symbols[static_cast<std::size_t>(kept.next)].previous = left;
}

void BytePairMerges::merge(std::span<const std::int32_t> symbols, Scratch& scratch,
                           std::vector<std::int32_t>& out) const {
  const auto n = static_cast<std::int32_t>(symbols.size());
  scratch.symbols.resize(symbols.size());
  scratch.queue.clear();
  for (std::int32_t i = 0; i < n; ++i) {
    scratch.symbols[static_cast<std::size_t>(i)] = {symbols[static_cast<std::size_t>(i)], i - 1,
                                                    i + 1 < n ? i + 1 : -1};
  }
  for (std::int32_t i = 0; i < n; ++i) enqueue(scratch, i);
  std::make_heap(scratch.queue.begin(), scratch.queue.end(), std::greater<>());
  const auto enqueue_sorted = [&](std::int32_t left) {
    const std::size_t before = scratch.queue.size();
    enqueue(scratch, left);
    if (scratch.queue.size() > before) std::push_heap(scratch.queue.begin(), scratch.queue.end(), std::greater<>());
  };
  while (!scratch.queue.empty()) {
    const std::uint64_t best = scratch.queue.front();
    std::pop_heap(scratch.queue.begin(), scratch.queue.end(), std::greater<>());
    scratch.queue.pop_back();
    const Merge& rule = merges_[best >> 32];
    const auto left = static_cast<std::int32_t>(best & 0xFFFFFFFF);
    const auto& symbol = scratch.symbols[static_cast<std::size_t>(left)];
    // An entry is stale if its pair has changed since it was queued.
    if (symbol.id != rule.left || symbol.next < 0) continue;
    if (scratch.symbols[static_cast<std::size_t>(symbol.next)].id != rule.right) continue;
    apply(scratch, left, rule.result);
    if (symbol.previous >= 0) enqueue_sorted(symbol.previous);
    enqueue_sorted(left);
  }
  for (const auto& symbol : scratch.symbols) {
    if (symbol.id >= 0) out.push_back(symbol.id);
  }
}

}  // namespace slip
