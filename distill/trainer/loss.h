// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kernels/loss_terms.h"

namespace slip {

LossKind parse_loss(const std::string& name);  // "kl", "rkl", "jsd", "tv"; Error{kInvalidArgument} listing them
const char* loss_name(LossKind kind);

// The loss of one row and its gradient in one fused pass: q = softmax(logits / T) on the K kept ids plus one bucket for
// all other ids, against p on the same K ids plus its tail. Writes d loss / d logits (scaled by `weight`) into grad
// [vocab] and returns the loss (not scaled), in nats (total variation: a probability).
//   logits [vocab] float32; ids [k] distinct, in [0, vocab); logprobs [k] at T = 1; log_tail. grad may be logits
//   itself, but not overlap it otherwise. Pure; any thread.
// At T ≠ 1 q's bucket is exact, but p's is not, since the tokens in it are unknown: p ∝ exp(logprob / T) on the kept
// ids and exp(log_tail / T) on the bucket, as if the tail were one token. That overestimates the tail at T < 1 and
// underestimates it at T > 1. A tail below 1e-8 counts as 1e-8 (1 − Σ p cannot distinguish it from rounding), so that a
// tail of −∞ gives a finite reverse KL. With k = vocab there is no bucket and log_tail is not read.
double fused_loss_row(const LossOptions& options, const float* logits, std::int64_t vocab, const std::int32_t* ids,
                      const float* logprobs, std::int64_t k, float log_tail, double weight, float* grad);

}  // namespace slip
