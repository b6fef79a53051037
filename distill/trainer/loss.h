// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kernels/loss_terms.h"

namespace slip {

LossKind parse_loss(const std::string& name);  // "kl", "rkl", "jsd", "tv"; Error{kInvalidArgument} listing them
const char* loss_name(LossKind kind);

// One fused pass over one row: q = softmax(logits / T) on the K kept ids plus one bucket for everything else, against
// p's K + tail. Writes d loss / d logits (scaled by `weight`) into grad [vocab] and returns the loss (not scaled), in
// nats (total variation: a probability).
//   logits [vocab] float32; ids [k] distinct, in [0, vocab); logprobs [k] at T = 1; log_tail. grad may be logits
//   itself, but not overlap it otherwise. Pure; any thread.
// At T ≠ 1 q's bucket is exact; p's is not, for the tokens inside it are not known: p ∝ exp(logprob / T) on the kept
// ids and exp(log_tail / T) on the bucket, as if the tail were one token. That over-states the tail at T < 1 and
// under-states it at T > 1. A tail below 1e-8 counts as 1e-8 (what 1 − Σ p cannot tell from rounding), so that a tail
// of −∞ gives a finite reverse KL; with k = vocab there is no bucket and log_tail is not read.
double fused_loss_row(const LossOptions& options, const float* logits, std::int64_t vocab, const std::int32_t* ids,
                      const float* logprobs, std::int64_t k, float log_tail, double weight, float* grad);

}  // namespace slip
