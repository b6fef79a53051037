// SPDX-License-Identifier: Apache-2.0
// The observation of a verified row: its K largest raw logits as log p at T = 1, and the log of the remaining mass.
// Same semantics as observe_row() in engine/speculative/observe.h.
#pragma once

#include "kernels/cuda/distribution.cuh"

namespace slip::kernels::cuda {

inline constexpr std::int32_t kMostKept = 128;

// Block x takes row x.
struct Observe {
  const float* logits = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
  std::int32_t vocab = 0;
  std::int32_t top_k = 0;       // at most kMostKept and vocab
  std::int32_t* ids = nullptr;  // [n_rows, top_k] by descending logit, then ascending id
  float* logprobs = nullptr;    // [n_rows, top_k]
  float* log_tail = nullptr;    // [n_rows]; −inf when no mass remains
};

struct ObserveShared {
  DistributionShared distribution;
  std::uint64_t keys[kMostKept];
  float logprobs[kMostKept];
  std::int32_t n;
};

struct CountAll {
  SLIP_DEVICE Mass operator()(std::int32_t) const { return 1; }
};
struct RawMass {
  LogitRow row;
  float largest;
  int bits;
  SLIP_DEVICE Mass operator()(std::int32_t id) const { return to_fixed(weight_of(row.logits[id], largest, 1), bits); }
};

SLIP_DEVICE void observe_row(const VocabularyBlock& block, const Observe& job, ObserveShared& shared) {
  const LogitRow row{job.logits + block.x * job.stride, job.vocab};
  RowDistribution distribution;
  find_best(block, row, distribution, shared.distribution);
  const int bits = fraction_bits(job.vocab);
  const Mass total = sum_over(block, job.vocab, RawMass{row, distribution.largest, bits}, shared.distribution);
  const double log_normalizer = distribution.largest + log(from_fixed(total, bits));
  const std::uint64_t border = last_of_head(block, row, CountAll{}, job.top_k, shared.distribution);
  block.each([&](int thread) {
    if (thread == 0) shared.n = 0;
  });
  block.each([&](int thread) {
    for (std::int32_t id = thread; id < job.vocab; id += kVocabularyThreads) {
      const std::uint64_t key = rank_key(row.logits[id], id);
      if (key < border) continue;
      const std::int32_t place = take_ticket(&shared.n);
      if (place < job.top_k) shared.keys[place] = key;
    }
  });
  // Keys are distinct, so a key's rank is the number of larger keys.
  block.each([&](int thread) {
    if (thread >= job.top_k) return;
    std::int32_t place = 0;
    for (std::int32_t i = 0; i < job.top_k; ++i) place += shared.keys[i] > shared.keys[thread] ? 1 : 0;
    const std::int32_t id = id_of_key(shared.keys[thread]);
    const auto logprob = static_cast<float>(row.logits[id] - log_normalizer);
    shared.logprobs[place] = logprob;
    job.ids[std::int64_t{block.x} * job.top_k + place] = id;
    job.logprobs[std::int64_t{block.x} * job.top_k + place] = logprob;
  });
  block.each_apart([&](int thread) {
    if (thread != 0) return;
    double mass = 0;
    for (std::int32_t i = 0; i < job.top_k; ++i) mass += exp(static_cast<double>(shared.logprobs[i]));
    const bool all = job.top_k == job.vocab || mass >= 1;
    job.log_tail[block.x] = all ? -infinity() : static_cast<float>(log1p(-mass));
  });
}

}  // namespace slip::kernels::cuda
