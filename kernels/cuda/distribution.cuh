// SPDX-License-Identifier: Apache-2.0
// The transformed distribution of a row of logits, without sorting or writing out the row: RowDistribution holds the
// few numbers that give any token's probability. Sums over the vocabulary are integers in fixed point, so the order of
// the threads does not matter.
#pragma once

#include "kernels/cuda/numbers.cuh"

namespace slip::kernels::cuda {

inline constexpr int kVocabularyThreads = 512;
using VocabularyBlock = Block<kVocabularyThreads>;
using Mass = unsigned long long;  // fixed point; the widest integer of the device's atomics

// The sampling transform: temperature, min_p, top_k and top_p of SamplingParams (engine/sampling/distribution.h), in
// this order.
struct Transform {
  double temperature = 1;  // 0: greedy
  double min_p = 0;
  double top_p = 1;
  std::int32_t top_k = 0;
};

// kNothingPossible: all logits are −inf. Logits processors can cause this; a healthy model cannot.
enum class DistributionState : std::int32_t { kFine = 0, kNotANumber = 1, kNothingPossible = 2 };

struct RowDistribution {
  double temperature = 1, min_p = 0;
  double total = 0;          // Σ weights of the kept tokens, rounded to fixed point
  std::uint64_t border = 0;  // the rank_key() of the last token kept
  float largest = 0;
  std::int32_t best = 0;  // the lowest id of the largest logit
  DistributionState state = DistributionState::kFine;
};

// A key that orders tokens by logit, then by descending id; larger keys rank first. A total order for all logits but
// NaN.
SLIP_DEVICE std::uint64_t rank_key(float logit, std::int32_t id) {
  const std::uint32_t bits = bits_of(logit + 0.0F);  // −0 ranks as +0
  const std::uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
  return static_cast<std::uint64_t>(ordered) << 32 | (0xFFFFFFFFU - static_cast<std::uint32_t>(id));
}
SLIP_DEVICE std::int32_t id_of_key(std::uint64_t key) {
  return static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(key));
}

// Fraction bits of the fixed point, leaving room for the sum of a whole vocabulary of ones.
SLIP_DEVICE int fraction_bits(std::int64_t vocab) {
  int bits = 62;
  while ((std::int64_t{1} << (62 - bits)) < vocab) --bits;
  return bits;
}
SLIP_DEVICE Mass to_fixed(double share, int bits) {
  return static_cast<Mass>(share * double_of(static_cast<std::uint64_t>(1023 + bits) << 52) + 0.5);
}
SLIP_DEVICE double from_fixed(Mass mass, int bits) {
  return static_cast<double>(mass) * double_of(static_cast<std::uint64_t>(1023 - bits) << 52);
}

// A token's weight relative to the most likely token, in [0, 1].
SLIP_DEVICE double weight_of(float logit, float largest, double temperature) {
  return exp_nonpositive((static_cast<double>(logit) - static_cast<double>(largest)) / temperature);
}

struct LogitRow {
  const float* logits = nullptr;
  std::int32_t vocab = 0;
};

// The probability of a token under a RowDistribution.
SLIP_DEVICE double probability(const LogitRow& row, const RowDistribution& distribution, std::int32_t id) {
  if (distribution.temperature == 0) return id == distribution.best ? 1.0 : 0.0;
  if (rank_key(row.logits[id], id) < distribution.border) return 0;
  const double weight = weight_of(row.logits[id], distribution.largest, distribution.temperature);
  return weight < distribution.min_p ? 0.0 : weight / distribution.total;
}

inline constexpr int kDigitBits = 11, kBins = 1 << kDigitBits;
inline constexpr int kBinsAThread = kBins / kVocabularyThreads;

struct DistributionShared {
  Mass mass[kBins];
  Mass scan[2][kVocabularyThreads];
  std::uint64_t keys[VocabularyBlock::kWarps];
  double times[VocabularyBlock::kWarps];
  Mass sums[VocabularyBlock::kWarps];
  std::int32_t counts[VocabularyBlock::kWarps];
  std::int32_t members[kBins];
  std::int32_t one[kBins];  // the id that came first; the only one if the bin has one member
  // One thread's result: the bin that reaches the target, and the sum of the measures ranked before it.
  std::int32_t found;
  Mass before;
};

struct AsOr {
  SLIP_DEVICE std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a | b; }
};

// Exclusive prefix sum of `value` over the threads; returns the total.
SLIP_DEVICE Mass scan_threads(const VocabularyBlock& block, VocabularyBlock::Per<Mass>& value,
                              DistributionShared& shared) {
  block.each([&](int thread) { shared.scan[0][thread] = value[thread]; });
  int from = 0;
  for (int by = 1; by < kVocabularyThreads; by *= 2, from = 1 - from) {
    block.each([&](int thread) {
      const Mass left = thread >= by ? shared.scan[from][thread - by] : 0;
      shared.scan[1 - from][thread] = shared.scan[from][thread] + left;
    });
  }
  const Mass all = shared.scan[from][kVocabularyThreads - 1];
  block.each([&](int thread) { value[thread] = thread > 0 ? shared.scan[from][thread - 1] : 0; });
  return all;
}

// Finds the smallest set of highest-ranked tokens whose measures reach `target`; returns the rank_key() of its last
// token, or 0 if all tokens together do not reach it. measure(id) is a count or a mass, 0 to skip the token. A radix
// select from the top, eleven bits a pass; a bin with one member ends the search.
template <class Measure>
SLIP_DEVICE std::uint64_t last_of_head(const VocabularyBlock& block, const LogitRow& row, const Measure& measure,
                                       double target, DistributionShared& shared) {
  std::uint64_t settled = 0;  // the key's digits found so far
  Mass before = 0;
  int low = 64 - kDigitBits, width = kDigitBits;
  while (true) {
    block.each([&](int thread) {
      for (int bin = thread; bin < kBins; bin += kVocabularyThreads) {
        shared.mass[bin] = 0;
        shared.members[bin] = 0;
      }
      if (thread == 0) shared.found = -1;
    });
    block.each([&](int thread) {
      for (std::int32_t id = thread; id < row.vocab; id += kVocabularyThreads) {
        const std::uint64_t key = rank_key(row.logits[id], id);
        if (low + width < 64 && (key >> (low + width)) != settled) continue;
        const Mass share = measure(id);
        if (share == 0) continue;
        const auto bin = static_cast<std::int32_t>(key >> low & ((std::uint64_t{1} << width) - 1));
        add_shared(&shared.mass[bin], share);
        if (take_ticket(&shared.members[bin]) == 0) shared.one[bin] = id;
      }
    });
    // Thread t examines four bins from 4 t on, in descending order.
    VocabularyBlock::Per<Mass> above;
    block.each_apart([&](int thread) {
      Mass sum = 0;
      for (int i = 0; i < kBinsAThread; ++i) sum += shared.mass[kBins - 1 - (thread * kBinsAThread + i)];
      above[thread] = sum;
    });
    scan_threads(block, above, shared);
    block.each([&](int thread) {
      Mass reached = before + above[thread];
      for (int i = 0; i < kBinsAThread; ++i) {
        const int bin = kBins - 1 - (thread * kBinsAThread + i);
        const Mass next = reached + shared.mass[bin];
        if (shared.members[bin] > 0 && static_cast<double>(reached) < target && static_cast<double>(next) >= target) {
          shared.found = bin;
          shared.before = reached;
        }
        reached = next;
      }
    });
    const std::int32_t found = shared.found;
    const std::int32_t members = found < 0 ? 0 : shared.members[found], one = found < 0 ? 0 : shared.one[found];
    before = shared.before;
    block.each([](int) {});  // all threads have read the bins; the next pass overwrites them
    if (found < 0) return 0;
    settled = settled << width | static_cast<std::uint64_t>(found);
    if (members == 1) return rank_key(row.logits[one], one);
    if (low == 0) return settled;
    width = low < kDigitBits ? low : kDigitBits;
    low -= width;
  }
}

// The measures for last_of_head(): counts for top_k, masses for top_p.
struct CountKept {
  LogitRow row;
  RowDistribution distribution;
  SLIP_DEVICE Mass operator()(std::int32_t id) const {
    const double weight = weight_of(row.logits[id], distribution.largest, distribution.temperature);
    return weight > 0 && weight >= distribution.min_p ? 1 : 0;
  }
};
struct MassKept {
  LogitRow row;
  RowDistribution distribution;
  int bits;
  SLIP_DEVICE Mass operator()(std::int32_t id) const {
    if (rank_key(row.logits[id], id) < distribution.border) return 0;
    const double weight = weight_of(row.logits[id], distribution.largest, distribution.temperature);
    return weight >= distribution.min_p ? to_fixed(weight, bits) : 0;
  }
};

struct IdRange {
  std::int32_t begin, end;
};

template <class Measure>
SLIP_DEVICE Mass sum_over(const VocabularyBlock& block, const IdRange& ids, const Measure& measure,
                          DistributionShared& shared) {
  VocabularyBlock::Per<Mass> sum;
  block.each_apart([&](int thread) {
    Mass own = 0;
    for (std::int32_t id = ids.begin + thread; id < ids.end; id += kVocabularyThreads) own += measure(id);
    sum[thread] = own;
  });
  return block.combine(sum, shared.sums, Add{});
}
template <class Measure>
SLIP_DEVICE Mass sum_over(const VocabularyBlock& block, std::int32_t vocab, const Measure& measure,
                          DistributionShared& shared) {
  return sum_over(block, IdRange{0, vocab}, measure, shared);
}

// The result of one part of a row. With few rows most of the device would be idle, so each part of a row is a block.
// The merged values are maxima and integer sums, so the number of parts does not change them.
inline constexpr int kRowParts = 32;
struct RowPart {
  std::uint64_t best_key = 0;  // 0: only NaN
  Mass mass = 0;               // of the tokens that min_p keeps
  double soonest = 0;          // of draw_gumbel(): the earliest arrival
  std::int32_t winner = 0;     // the token of that arrival
  std::int32_t broken = 0;     // not 0: the row contains NaN or +inf
};

SLIP_DEVICE IdRange part_of(std::int32_t vocab, int part) {
  const std::int32_t size = (vocab + kRowParts - 1) / kRowParts, begin = part * size, end = begin + size;
  return {begin < vocab ? begin : vocab, end < vocab ? end : vocab};
}

// The rank_key() of the greatest logit, and whether every logit is a number below +inf.
SLIP_DEVICE RowPart best_of(const VocabularyBlock& block, const LogitRow& row, const IdRange& ids,
                            DistributionShared& shared) {
  VocabularyBlock::Per<std::uint64_t> best;
  VocabularyBlock::Per<std::int32_t> broken;
  block.each_apart([&](int thread) {
    best[thread] = 0;
    broken[thread] = 0;
    for (std::int32_t id = ids.begin + thread; id < ids.end; id += kVocabularyThreads) {
      const float logit = row.logits[id];
      broken[thread] |= logit < infinity() ? 0 : 1;
      const std::uint64_t key = logit < infinity() ? rank_key(logit, id) : 0;
      best[thread] = key > best[thread] ? key : best[thread];
    }
  });
  RowPart part;
  part.best_key = block.combine(best, shared.keys, Larger{});
  part.broken = block.combine(broken, shared.counts, AsOr{});
  return part;
}

SLIP_DEVICE void set_best(const LogitRow& row, const RowPart& of, RowDistribution& distribution) {
  distribution.best = of.best_key == 0 ? 0 : id_of_key(of.best_key);
  distribution.largest = row.logits[distribution.best];
  distribution.state =
      distribution.largest > -infinity() ? DistributionState::kFine : DistributionState::kNothingPossible;
  if (of.broken != 0) distribution.state = DistributionState::kNotANumber;
}
SLIP_DEVICE void find_best(const VocabularyBlock& block, const LogitRow& row, RowDistribution& distribution,
                           DistributionShared& shared) {
  set_best(row, best_of(block, row, {0, row.vocab}, shared), distribution);
}

// Merges a row's parts; every thread goes through all of them, since there are few.
SLIP_DEVICE RowPart together(const RowPart* parts) {
  RowPart all = parts[0];
  for (int i = 1; i < kRowParts; ++i) {
    all.best_key = Larger{}(all.best_key, parts[i].best_key);
    all.broken |= parts[i].broken;
    all.mass += parts[i].mass;
  }
  return all;
}

// The distribution of one row, equal in all threads. `parts`: the results of scan_best() and scan_mass(), or null.
SLIP_DEVICE RowDistribution distribution_of(const VocabularyBlock& block, const LogitRow& row,
                                            const Transform& transform, const RowPart* parts,
                                            DistributionShared& shared) {
  RowDistribution distribution;
  distribution.temperature = transform.temperature;
  distribution.min_p = transform.min_p;
  const RowPart known = parts == nullptr ? best_of(block, row, {0, row.vocab}, shared) : together(parts);
  set_best(row, known, distribution);
  if (transform.temperature == 0 || distribution.state != DistributionState::kFine) return distribution;
  const int bits = fraction_bits(row.vocab);
  if (transform.top_k > 0) {
    distribution.border = last_of_head(block, row, CountKept{row, distribution}, transform.top_k, shared);
  }
  const bool is_known = parts != nullptr && transform.top_k == 0;
  Mass total = is_known ? known.mass : sum_over(block, row.vocab, MassKept{row, distribution, bits}, shared);
  if (transform.top_p < 1) {
    const double target = transform.top_p * static_cast<double>(total);
    const std::uint64_t border = last_of_head(block, row, MassKept{row, distribution, bits}, target, shared);
    distribution.border = border > distribution.border ? border : distribution.border;
    total = sum_over(block, row.vocab, MassKept{row, distribution, bits}, shared);
  }
  distribution.total = from_fixed(total, bits);
  return distribution;
}

// Distributions of n rows; block x takes row x. With `parts`, scan_best() and scan_mass() run first: their block (x, y)
// takes part y of row x.
struct MakeDistributions {
  const float* logits = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
  std::int32_t vocab = 0;
  const Transform* transforms = nullptr;     // [n_rows]
  RowDistribution* distributions = nullptr;  // [n_rows]
  RowPart* parts = nullptr;                  // [n_rows, kRowParts] scratch; null: one block does a whole row
};

SLIP_DEVICE void scan_best(const VocabularyBlock& block, const MakeDistributions& job, DistributionShared& shared) {
  const LogitRow row{job.logits + block.x * job.stride, job.vocab};
  const RowPart part = best_of(block, row, part_of(job.vocab, block.y), shared);
  block.each_apart([&](int thread) {
    if (thread == 0) job.parts[block.x * kRowParts + block.y] = part;
  });
}

SLIP_DEVICE void scan_mass(const VocabularyBlock& block, const MakeDistributions& job, DistributionShared& shared) {
  const LogitRow row{job.logits + block.x * job.stride, job.vocab};
  const Transform transform = job.transforms[block.x];
  RowDistribution distribution;
  distribution.temperature = transform.temperature;
  distribution.min_p = transform.min_p;
  set_best(row, together(job.parts + block.x * kRowParts), distribution);
  if (distribution.temperature == 0 || distribution.state != DistributionState::kFine) return;
  const MassKept kept{row, distribution, fraction_bits(job.vocab)};
  const Mass mass = sum_over(block, part_of(job.vocab, block.y), kept, shared);
  block.each_apart([&](int thread) {
    if (thread == 0) job.parts[block.x * kRowParts + block.y].mass = mass;
  });
}

SLIP_DEVICE void make_distribution(const VocabularyBlock& block, const MakeDistributions& job,
                                   DistributionShared& shared) {
  const LogitRow row{job.logits + block.x * job.stride, job.vocab};
  const RowPart* parts = job.parts == nullptr ? nullptr : job.parts + block.x * kRowParts;
  const RowDistribution distribution = distribution_of(block, row, job.transforms[block.x], parts, shared);
  block.each_apart([&](int thread) {
    if (thread == 0) job.distributions[block.x] = distribution;
  });
}

}  // namespace slip::kernels::cuda
