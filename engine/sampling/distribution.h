// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/error.h"
#include "engine/sampling/random.h"

namespace slip {

class AnswerGrammar;
class Grammar;

struct LogitBias {
  std::int32_t id = 0;
  float bias = 0;  // [−100, 100]
};

// Names as in vLLM and the OpenAI API. Applied in vLLM's order: logit_bias and min_tokens, then the penalties, the
// grammar's mask, temperature, min_p, top_k, top_p. Greedy takes the best of the processed logits; min_p, top_k and
// top_p then have no effect.
struct SamplingParams {
  float temperature = 1.0F;      // 0 = greedy; else in (0, 2]
  float top_p = 1.0F;            // (0, 1]
  std::int32_t top_k = 0;        // 0 = off
  float min_p = 0;               // [0, 1]: drops tokens less likely than this share of the most likely one
  float repetition_penalty = 1;  // (0, 2]; divides positive and multiplies negative logits of tokens in the prompt or
                                 // the answer (Keskar et al., 2019)
  float presence_penalty = 0;    // [−2, 2]; subtracted from the logit of each token in the answer
  float frequency_penalty = 0;   // [−2, 2]; likewise, times the token's count in the answer
  std::vector<LogitBias> logit_bias;       // each id once
  std::int32_t min_tokens = 0;             // until then, end tokens are impossible and stop strings do not count
  std::optional<std::uint64_t> seed;       // given: coupled acceptance; else the server draws one and uses rejection
  std::shared_ptr<const Grammar> grammar;  // the answer is a document of it, or a prefix of one; null: any text

  bool has_penalty() const { return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0; }
  // Whether a row's distribution depends on more than its logits: on the tokens before it, or on particular token ids.
  bool processes_logits() const { return has_penalty() || !logit_bias.empty() || min_tokens > 0 || grammar != nullptr; }
};

// The inputs of a row's distribution besides its logits.
struct RowContext {
  std::span<const std::int32_t> path;     // the prompt, the answer so far and the proposal's path to the row
  std::int32_t prompt_tokens = 0;         // the first ones of `path`
  std::span<const std::int32_t> end_ids;  // impossible until min_tokens is reached and the document is complete
  AnswerGrammar* grammar = nullptr;       // set if SamplingParams has a grammar: the answer's state in it
};

// A sparse probability vector: the support that the transform kept, ids ascending, probabilities normalised in float64.
struct Distribution {
  std::vector<std::int32_t> ids;
  std::vector<double> probabilities;
  double probability(std::int32_t id) const;  // 0 outside the support
};

// The one transform for p and q alike, in the order that SamplingParams names; then normalised. Greedy gives one-hot at
// the argmax of the processed logits (lowest id among equals). Error{kDataLoss} when a logit is NaN or +inf or all are
// −inf; Error{kInvalidArgument} when the grammar allows no token.
void transform_logits(std::span<const float> logits, const SamplingParams& params, const RowContext& context,
                      Distribution& out);

// The error of a request with a row of logits that has a NaN or +inf, or only −inf.
Error broken_logits();

// Throws broken_logits() for such a row [vocab].
void check_logits(std::span<const float> logits);

// Removes an id, and renormalises what is left. Nothing is left if that id had all the probability. REQUIRES: `id` is
// in the support.
void remove_id(std::int32_t id, Distribution& distribution);

std::int32_t sample_inverse_cdf(const Distribution& distribution, double u);                 // u in [0, 1)
std::int32_t sample_gumbel(const Distribution& distribution, const RandomAddress& address);  // argmax(log p + g)

// log softmax of raw logits (T = 1, no transform): the top `n` and any one token. The normalizer is within 2^−21.
struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
};
double log_normalizer(std::span<const float> logits);
// Returns log_normalizer(logits), computed in the same pass over the row.
double top_logprobs(std::span<const float> logits, std::int32_t n, std::vector<TokenLogprob>& out);

}  // namespace slip
