// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/reservoir.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "engine/sampling/random.h"

namespace slip {

namespace {

constexpr double kLn2 = 0.6931471805599453;

// Gumbel noise addressed by (seed, draw, ordinal): the 64-bit draw and ordinal are spread over seed, choice and index.
double gumbel_at(std::uint64_t seed, std::uint64_t draw, std::uint64_t ordinal) {
  const std::uint64_t high_bits = (ordinal >> 32) ^ (draw >> 32 << 16);
  const RandomAddress address{seed ^ high_bits * 0x9E3779B97F4A7C15ULL, static_cast<std::uint32_t>(draw),
                              static_cast<std::uint32_t>(ordinal)};
  return gumbel(address, /*token=*/0);
}

}  // namespace

// The log weight relative to ordinal 0, so that a key does not change when newer records come. Log weights do not
// overflow.
double Reservoir::recency(const ReplayEntry& entry) const {
  return static_cast<double>(entry.ordinal) * kLn2 / half_life_;
}

double Reservoir::key(const ReplayEntry& entry) const {
  constexpr std::uint64_t kReservoirDraw = ~std::uint64_t{0};
  return recency(entry) + gumbel_at(seed_, kReservoirDraw, entry.ordinal);
}

void Reservoir::note_ordinal(std::uint64_t ordinal) {
  next_ordinal_ = std::max(next_ordinal_, ordinal + 1);
}

void Reservoir::insert(const ReplayEntry& entry) {
  note_ordinal(entry.ordinal);
  const auto place = entries_.emplace(entry.sequence, entry).first;
  try {
    by_key_.emplace(key(entry), entry.sequence);
  } catch (const std::bad_alloc&) {
    entries_.erase(place);
    throw;
  }
  bytes_ += entry.bytes;
}

std::vector<ReplayEntry> Reservoir::evict_over(std::uint64_t max_bytes) {
  std::vector<ReplayEntry> evicted;
  while (bytes_ > max_bytes) {
    const std::uint64_t sequence = by_key_.begin()->second;
    evicted.push_back(entries_.at(sequence));
    erase(sequence);
  }
  return evicted;
}

void Reservoir::erase(std::uint64_t sequence) {
  const auto found = entries_.find(sequence);
  if (found == entries_.end()) return;
  bytes_ -= found->second.bytes;
  by_key_.erase({key(found->second), sequence});
  entries_.erase(found);
}

ReplayEntry* Reservoir::find(std::uint64_t sequence) {
  const auto found = entries_.find(sequence);
  return found == entries_.end() ? nullptr : &found->second;
}

// Gumbel top-k, as in eviction: the n largest of log w + Gumbel are a weighted draw without replacement.
std::vector<ReplayEntry> Reservoir::sample(std::size_t n, std::uint64_t seed, std::uint64_t draw,
                                           std::uint64_t newest) const {
  std::vector<std::pair<double, const ReplayEntry*>> drawn;
  for (const auto& [sequence, entry] : entries_) {
    if (entry.heldout || sequence > newest) continue;
    drawn.emplace_back(recency(entry) + gumbel_at(seed, draw, entry.ordinal), &entry);
  }
  const std::size_t kept = std::min(n, drawn.size());
  std::partial_sort(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(kept), drawn.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<ReplayEntry> out;
  for (std::size_t i = 0; i < kept; ++i) out.push_back(*drawn[i].second);
  return out;
}

std::vector<ReplayEntry> Reservoir::newest(std::size_t limit,
                                           const std::function<bool(const ReplayEntry&)>& wanted) const {
  std::vector<ReplayEntry> out;
  for (auto it = entries_.rbegin(); it != entries_.rend() && out.size() < limit; ++it) {
    if (wanted(it->second)) out.push_back(it->second);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace slip
