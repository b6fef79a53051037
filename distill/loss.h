// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace slip {

enum class LossKind : std::uint8_t {
  kForwardKl,       // KL(p‖q)
  kReverseKl,       // KL(q‖p)
  kJsd,             // β·KL(p‖m) + (1−β)·KL(q‖m), m = βp + (1−β)q
  kTotalVariation,  // 1 − Σ min(p, q): the rejection rate itself
};

struct LossOptions {
  LossKind kind = LossKind::kForwardKl;
  double beta = 0.5;         // kJsd only, (0, 1)
  double temperature = 1.0;  // p and q are compared at this temperature; the traffic's own
};

LossKind parse_loss(const std::string& name);  // "kl", "rkl", "jsd", "tv"; Error{kInvalidArgument} listing them
const char* loss_name(LossKind kind);

// One fused pass over one row: q = softmax(logits / T) on the K kept ids plus one bucket for everything else, against
// p's K + tail. Writes d loss / d logits (scaled by `weight`) into grad [vocab] and returns the loss (not scaled), in
// nats.
//   logits [vocab] float32; ids [k] distinct, in [0, vocab); logprobs [k] at T = 1; log_tail. Pure; any thread.
double fused_loss_row(const LossOptions& options, const float* logits, std::int64_t vocab, const std::int32_t* ids,
                      const float* logprobs, std::int64_t k, float log_tail, double weight, float* grad);

}  // namespace slip
