// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distill/replay/replay_record.h"

namespace slip {

// Addresses the records of one batch: `n` of a topic's training records with sequence ≤ `newest`, by the generator's
// (seed, draw).
struct SampleAddress {
  std::string topic;
  std::size_t n = 0;
  std::uint64_t seed = 0, draw = 0, newest = 0;
  bool operator==(const SampleAddress&) const = default;
};

// The part of the replay buffer that training and scoring read. Threads: see the implementation.
class ReplayReader {
 public:
  virtual ~ReplayReader() = default;
  // Draws `n` training records of a topic with recency weights; the generator is addressed by (seed, draw). Excludes
  // held-out records and those with sequence > `newest`. Returns fewer when there are fewer.
  virtual std::vector<ReplayRecord> sample(const std::string& topic, std::size_t n, std::uint64_t seed,
                                           std::uint64_t draw, std::uint64_t newest) const = 0;
  // Tells what the next sample() is likely to ask for, so that it need not wait. Only a hint.
  virtual void prepare(const SampleAddress& /*next*/) const noexcept {}
  // The newest `limit` held-out records of a topic with sequence ≤ `newest`, oldest first.
  virtual std::vector<ReplayRecord> heldout(const std::string& topic, std::size_t limit,
                                            std::uint64_t newest) const = 0;
};

}  // namespace slip
