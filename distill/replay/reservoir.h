// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace slip {

// The place of one live record on disk, and the data for decisions about it.
struct ReplayEntry {
  std::uint64_t sequence = 0;
  std::uint64_t ordinal = 0;  // rises within its topic
  RequestId request;
  std::int64_t expires_us = 0;
  bool heldout = false, sampled = false;
  std::uint64_t segment = 0, offset = 0, bytes = 0;
};

// One topic's records under a byte budget: a weighted reservoir (Efraimidis and Spirakis, 2006, A-Res) whose weights
// halve with every `half_life` newer records of the topic. A record's key is log w − log(−log u), with u addressed by
// its ordinal. So eviction always chooses the same records, also after a restart that reads the segments again. Pure;
// one owner.
class Reservoir {
 public:
  Reservoir(double half_life, std::uint64_t seed) : half_life_(half_life), seed_(seed) {}

  void insert(const ReplayEntry& entry);
  // Removes and returns the records with the lowest keys until at most `max_bytes` are left.
  std::vector<ReplayEntry> evict_over(std::uint64_t max_bytes);
  void erase(std::uint64_t sequence);
  ReplayEntry* find(std::uint64_t sequence);

  // `n` distinct training entries with sequence ≤ newest, drawn with recency weights by (seed, draw).
  std::vector<ReplayEntry> sample(std::size_t n, std::uint64_t seed, std::uint64_t draw, std::uint64_t newest) const;
  // The newest `limit` entries that `wanted` accepts, oldest first.
  std::vector<ReplayEntry> newest(std::size_t limit, const std::function<bool(const ReplayEntry&)>& wanted) const;
  const std::map<std::uint64_t, ReplayEntry>& entries() const { return entries_; }  // by rising sequence
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t next_ordinal() const { return next_ordinal_; }
  void note_ordinal(std::uint64_t ordinal);  // next_ordinal() exceeds it from now on

 private:
  double key(const ReplayEntry& entry) const;
  double recency(const ReplayEntry& entry) const;

  double half_life_;
  std::uint64_t seed_;
  std::uint64_t bytes_ = 0;
  std::uint64_t next_ordinal_ = 1;
  std::map<std::uint64_t, ReplayEntry> entries_;
  std::set<std::pair<double, std::uint64_t>> by_key_;  // (key, sequence)
};

}  // namespace slip
