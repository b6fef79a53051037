// SPDX-License-Identifier: Apache-2.0
// The distillation loss and its gradient with respect to the draft's logits, with the semantics of fused_loss_row() in
// distill/trainer/loss.h. Compares q and p on p's K kept ids and on one tail bucket for all other tokens.
#pragma once

#include "kernels/cuda/distribution.cuh"
#include "kernels/cuda/observe.cuh"
#include "kernels/loss_terms.h"

namespace slip::kernels::cuda {

// Block x takes row x.
struct FusedLoss {
  LossOptions options;
  const float* logits = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
  std::int32_t vocab = 0;
  std::int32_t top_k = 0;             // kept ids per row, at most kMostKept; top_k = vocab: no tail bucket
  const std::int32_t* ids = nullptr;  // [n_rows, top_k] distinct
  const float* logprobs = nullptr;    // [n_rows, top_k] at T = 1
  const float* log_tail = nullptr;    // [n_rows]
  const float* weights = nullptr;     // [n_rows] scale the gradient only; null: 1
  double* losses = nullptr;           // [n_rows] not scaled
  float* grad = nullptr;              // [n_rows, stride]; must not overlap the logits
};

struct LossShared {
  DistributionShared distribution;
  double log_p[kMostKept + 1], q[kMostKept + 1], log_q[kMostKept + 1], slope[kMostKept + 1];
  double loss, mean_slope;
};

struct TailMass {
  LogitRow row;
  const std::int32_t* ids;
  std::int32_t top_k;
  float largest;
  double temperature;
  int bits;
  SLIP_DEVICE Mass operator()(std::int32_t id) const {
    for (std::int32_t i = 0; i < top_k; ++i) {
      if (ids[i] == id) return 0;
    }
    return to_fixed(weight_of(row.logits[id], largest, temperature), bits);
  }
};
struct AllMass {
  LogitRow row;
  float largest;
  double temperature;
  int bits;
  SLIP_DEVICE Mass operator()(std::int32_t id) const {
    return to_fixed(weight_of(row.logits[id], largest, temperature), bits);
  }
};

// Normalized log p at the options' temperature on the kept ids and, last, the tail bucket. One thread computes the K +
// 1 numbers.
SLIP_DEVICE void log_targets(const FusedLoss& job, std::int64_t row, LossShared& shared) {
  const std::int32_t n = job.top_k + (job.top_k < job.vocab ? 1 : 0);
  const double smallest = log(kSmallestTail);
  double top = -static_cast<double>(infinity());
  for (std::int32_t i = 0; i < n; ++i) {
    double value = i < job.top_k ? job.logprobs[row * job.top_k + i] : job.log_tail[row];
    if (i == job.top_k && value < smallest) value = smallest;
    shared.log_p[i] = value / job.options.temperature;
    top = Larger{}(top, shared.log_p[i]);
  }
  double sum = 0;
  for (std::int32_t i = 0; i < n; ++i) sum += exp(shared.log_p[i] - top);
  const double normalizer = top + log(sum);
  for (std::int32_t i = 0; i < n; ++i) shared.log_p[i] = Larger{}(shared.log_p[i] - normalizer, -700.0);
}

// Terms and slopes of all buckets, by one thread in order.
SLIP_DEVICE void sum_terms(const FusedLoss& job, LossShared& shared) {
  const std::int32_t n = job.top_k + (job.top_k < job.vocab ? 1 : 0);
  shared.loss = shared.mean_slope = 0;
  for (std::int32_t i = 0; i < n; ++i) {
    const LossTerm term = bucket_term(job.options, exp(shared.log_p[i]), shared.log_p[i], shared.q[i], shared.log_q[i]);
    shared.loss += term.loss;
    shared.slope[i] = term.slope;
    shared.mean_slope += shared.q[i] * term.slope;
  }
}

SLIP_DEVICE void fused_loss(const VocabularyBlock& block, const FusedLoss& job, LossShared& shared) {
  const std::int64_t at = block.x;
  const LogitRow row{job.logits + at * job.stride, job.vocab};
  const std::int32_t* ids = job.ids + at * job.top_k;
  const double temperature = job.options.temperature;
  const bool has_tail = job.top_k < job.vocab;
  RowDistribution distribution;
  find_best(block, row, distribution, shared.distribution);
  const int bits = fraction_bits(job.vocab);
  const Mass mass =
      sum_over(block, job.vocab, AllMass{row, distribution.largest, temperature, bits}, shared.distribution);
  // An invalid row gives NaN in the loss and the gradient, so that the trainer notices and skips the step.
  const double sum =
      distribution.state == DistributionState::kFine ? from_fixed(mass, bits) : double_of(0x7FF8000000000000U);
  // Sums the tail directly: total minus kept would cancel.
  const Mass tail =
      has_tail ? sum_over(block, job.vocab, TailMass{row, ids, job.top_k, distribution.largest, temperature, bits},
                          shared.distribution)
               : 0;
  block.each([&](int thread) {
    if (thread == 0) log_targets(job, at, shared);
    for (std::int32_t i = thread; i < job.top_k; i += kVocabularyThreads) {
      const double log_q = (static_cast<double>(row.logits[ids[i]]) - distribution.largest) / temperature - log(sum);
      shared.q[i] = Larger{}(exp(log_q), 1e-300);  // keeps NaN
      shared.log_q[i] = Larger{}(log_q, -690.0);
    }
    if (thread == kVocabularyThreads - 1 && has_tail) {
      shared.q[job.top_k] = Larger{}(from_fixed(tail, bits) / sum, 1e-38);
      shared.log_q[job.top_k] = log(shared.q[job.top_k]);
    }
  });
  block.each([&](int thread) {
    if (thread == 0) sum_terms(job, shared);
  });
  // d loss / d z = q (slope of its bucket − Σ q slope) / T.
  const double step = (job.weights == nullptr ? 1.0 : static_cast<double>(job.weights[at])) / temperature;
  const double rest = has_tail ? step * (shared.slope[job.top_k] - shared.mean_slope) / sum : 0.0;
  float* grad = job.grad + at * job.stride;
  block.each([&](int thread) {
    if (thread == 0) job.losses[at] = shared.loss;
    for (std::int32_t id = thread; id < job.vocab; id += kVocabularyThreads) {
      grad[id] = static_cast<float>(rest * weight_of(row.logits[id], distribution.largest, temperature));
    }
  });
  block.each_apart([&](int thread) {
    for (std::int32_t i = thread; i < job.top_k; i += kVocabularyThreads) {
      grad[ids[i]] = static_cast<float>(step * shared.q[i] * (shared.slope[i] - shared.mean_slope));
    }
  });
}

}  // namespace slip::kernels::cuda
