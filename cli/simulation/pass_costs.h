// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoints/model_config.h"

namespace slip {

// The quantities that determine the time of a pass.
struct PassShape {
  std::int32_t rows = 1;         // tokens computed, over all sequences
  std::int32_t logit_rows = 1;   // rows of them that get logits
  std::int32_t sequences = 1;    // that the rows belong to
  std::int64_t context = 0;      // cached tokens that they see, over all sequences
  std::int64_t row_context = 0;  // Σ over the rows of the cached tokens that each sees
};
// A shape with `rows` of each of `sequences`, each of which sees `context` cached tokens.
PassShape pass_shape(std::int32_t sequences, std::int32_t rows, std::int64_t context, bool all_logits = true);

// The time of a model's pass: SmartSpec's a · N_context + g · N_tokens + d (arXiv 2406.14066, equation 8). A table over
// the rows replaces d and g: it shows where arithmetic begins to cost more than reading the weights.
class PassCosts {
 public:
  // All in µs, finite and not negative.
  struct Terms {
    std::map<std::int32_t, double> row_us;  // a pass with that many rows of one sequence, no context, one logit row
    double more_row_us = 0;                 // of each row beyond the table
    double logit_row_us = 0;                // of each further row with logits
    double sequence_us = 0;                 // of each further sequence
    double context_us = 0;                  // of each cached token
    double row_context_us = 0;              // of each cached token that a row sees
  };

  // Throws Error{kInvalidArgument} naming the term that is missing or no time.
  explicit PassCosts(Terms terms);

  double us(const PassShape& shape) const;
  const Terms& terms() const { return terms_; }

  nlohmann::json to_json() const;
  // Error{kInvalidArgument} naming `where` and the key.
  static PassCosts from_json(const nlohmann::json& json, const std::string& where);

 private:
  Terms terms_;
};

// A machine's speed, as measured or published.
struct MachineFigures {
  double bytes_per_s = 0, flop_per_s = 0;
  double pass_us = 0;  // of each pass beside reading and arithmetic, such as launches
};

// The costs that follow from a model's size: the longer of reading the weights once and of computing the rows, and the
// same for keys and values. `bytes_each`: of a weight and of a cached number. Pure.
PassCosts calculated_costs(const ModelConfig& config, const MachineFigures& machine, double bytes_each);

}  // namespace slip
