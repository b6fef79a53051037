// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/pass_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using nlohmann::json;
using Terms = PassCosts::Terms;

constexpr std::int32_t kMostTableRows = 1 << 20;
constexpr double kMostPassUs = 3.6e9;  // an hour: a simulated clock counts sums of such times
constexpr double kMostPartUs = 1e6;    // of one row, sequence or token of context
// The terms that are one number, by their key in a profile.
constexpr std::array<std::pair<const char*, double Terms::*>, 5> kNumbers = {
    {{"more_row_us", &Terms::more_row_us},
     {"logit_row_us", &Terms::logit_row_us},
     {"sequence_us", &Terms::sequence_us},
     {"context_us", &Terms::context_us},
     {"row_context_us", &Terms::row_context_us}}};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what, "make the profile again: slipstream profile --help");
}

}  // namespace

PassShape pass_shape(std::int32_t sequences, std::int32_t rows, std::int64_t context, bool all_logits) {
  const std::int32_t all = sequences * rows;
  return {all, all_logits ? all : 1, sequences, sequences * context, all * context};
}

PassCosts::PassCosts(Terms terms) : terms_(std::move(terms)) {
  if (terms_.row_us.empty() || terms_.row_us.begin()->first != 1) refuse("row_us has no time of one row");
  for (const auto& [rows, us] : terms_.row_us) {
    if (!(us > 0 && us <= kMostPassUs) || rows > kMostTableRows) {
      refuse("row_us: " + std::to_string(us) + " µs is no time of " + std::to_string(rows) + " rows");
    }
  }
  for (const auto& [key, term] : kNumbers) {
    if (!(terms_.*term >= 0 && terms_.*term <= kMostPartUs))
      refuse(std::string(key) + ": " + std::to_string(terms_.*term) + " is no time");
  }
}

double PassCosts::us(const PassShape& shape) const {
  const auto above = terms_.row_us.lower_bound(shape.rows);
  double us = 0;
  if (above == terms_.row_us.end()) {
    const auto& [most, us_of_most] = *terms_.row_us.rbegin();
    us = us_of_most + terms_.more_row_us * (shape.rows - most);
  } else if (above == terms_.row_us.begin()) {
    us = above->second;
  } else {
    const auto below = std::prev(above);
    const double part = static_cast<double>(shape.rows - below->first) / (above->first - below->first);
    us = below->second + part * (above->second - below->second);
  }
  return us + terms_.logit_row_us * std::max(0, shape.logit_rows - 1) +
         terms_.sequence_us * std::max(0, shape.sequences - 1) +
         terms_.context_us * static_cast<double>(shape.context) +
         terms_.row_context_us * static_cast<double>(shape.row_context);
}

json PassCosts::to_json() const {
  json out = {{"row_us", json::array()}};
  for (const auto& [rows, us] : terms_.row_us) out["row_us"].push_back({rows, us});
  for (const auto& [key, term] : kNumbers) out[key] = terms_.*term;
  return out;
}

PassCosts PassCosts::from_json(const json& object, const std::string& where) {
  if (!object.is_object() || !object.contains("row_us") || !object["row_us"].is_array()) {
    refuse(where + ": row_us is missing");
  }
  Terms terms;
  for (const json& pair : object["row_us"]) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() && pair[1].is_number();
    const std::int64_t rows = is_pair ? pair[0].get<std::int64_t>() : 0;
    if (rows < 1 || rows > kMostTableRows) refuse(where + ": row_us holds no pair of rows and µs: " + pair.dump());
    terms.row_us[static_cast<std::int32_t>(rows)] = pair[1].get<double>();
  }
  for (const auto& [key, term] : kNumbers) {
    if (!object.contains(key) || !object[key].is_number()) refuse(where + ": " + key + " is no number");
    terms.*term = object[key].get<double>();
  }
  try {
    return PassCosts(std::move(terms));
  } catch (const Error& error) {
    throw Error(error.code(), where + ": " + error.message(), error.hint());
  }
}

PassCosts calculated_costs(const ModelConfig& config, const MachineFigures& machine, double bytes_each) {
  // A row of the embedding is looked up; all other weights are read and multiplied.
  const auto embedding = static_cast<double>(config.vocab_size) * config.hidden_size;
  const double multiplied = static_cast<double>(config.parameters()) - (config.tied_embeddings ? 0 : embedding);
  const double us_a_byte = 1e6 / machine.bytes_per_s, us_an_operation = 1e6 / machine.flop_per_s;
  const double read_us = multiplied * bytes_each * us_a_byte;
  const double row_us = 2 * (multiplied - embedding) * us_an_operation;  // logits are counted apart
  const auto cached = 2.0 * config.n_layers * config.n_kv_heads * config.head_dim;
  const auto attended = 4.0 * config.n_layers * config.n_heads * config.head_dim;
  Terms terms;
  const auto knee = static_cast<std::int32_t>(std::clamp(read_us / row_us, 1.0, kMostTableRows / 2.0));
  for (const std::int32_t rows : {1, knee, 2 * knee}) {
    terms.row_us[rows] = machine.pass_us + std::max(read_us, rows * row_us);
  }
  terms.more_row_us = row_us;
  terms.logit_row_us = 2 * embedding * us_an_operation;
  terms.context_us = cached * bytes_each * us_a_byte;
  terms.row_context_us = attended * us_an_operation;
  return PassCosts(std::move(terms));
}

}  // namespace slip
