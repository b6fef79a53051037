// SPDX-License-Identifier: Apache-2.0
#include "server/openai/sampling_fields.h"

#include <charconv>
#include <limits>
#include <string_view>

namespace slip {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBiases = 1024;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

bool in_two(double value) {
  return value >= -2 && value <= 2;
}
bool in_unit(double value) {
  return value >= 0 && value <= 1;
}

// Reads {"15": -100, …}: JSON has no integer keys, so OpenAI's are decimal text.
std::vector<LogitBias> read_logit_bias(const RequestFields& fields) {
  std::vector<LogitBias> biases;
  const json* value = fields.find("logit_bias");
  if (value == nullptr) return biases;
  if (!value->is_object()) refuse_field("logit_bias", "must be an object from token ids to numbers");
  if (value->size() > kMaxBiases)
    refuse_field("logit_bias", "has more than " + std::to_string(kMaxBiases) + " entries");
  for (const auto& [name, bias] : value->items()) {
    LogitBias one;
    const char* const end = name.data() + name.size();
    const auto [stop, status] = std::from_chars(name.data(), end, one.id);
    const std::string field = "logit_bias." + name.substr(0, 16);
    if (status != std::errc() || stop != end || std::to_string(one.id) != name || one.id < 0) {
      refuse_field(field, "is no token id");
    }
    const double amount = bias.is_number() ? bias.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(amount >= -100 && amount <= 100)) refuse_field(field, "must be a number from -100 to 100");
    one.bias = static_cast<float>(amount);
    biases.push_back(one);
  }
  return biases;
}

}  // namespace

void resolve_special_values(SamplingParams& sampling) {
  if (sampling.top_p <= 0) {  // a positive double may round to 0 as a float
    sampling.top_p = 1;
    sampling.temperature = 0;
  }
  if (sampling.top_k < 0) sampling.top_k = 0;  // vLLM's spelling of "all tokens"
}

SamplingParams read_sampling_fields(const RequestFields& fields) {
  SamplingParams sampling;
  const auto take = [](auto value, auto& to) {
    if (value) to = static_cast<std::remove_reference_t<decltype(to)>>(*value);
  };
  take(fields.number(
           "temperature", [](double t) { return t >= 0 && t <= 2; }, "from 0 to 2"),
       sampling.temperature);
  take(fields.number("top_p", in_unit, "from 0 to 1"), sampling.top_p);
  take(fields.integer("top_k", -1, kMaxInt32), sampling.top_k);
  resolve_special_values(sampling);
  take(fields.number("min_p", in_unit, "from 0 to 1"), sampling.min_p);
  take(fields.number(
           "repetition_penalty", [](double p) { return p >= 0.01 && p <= 2; }, "from 0.01 to 2"),
       sampling.repetition_penalty);
  take(fields.number("presence_penalty", in_two, "from -2 to 2"), sampling.presence_penalty);
  take(fields.number("frequency_penalty", in_two, "from -2 to 2"), sampling.frequency_penalty);
  sampling.logit_bias = read_logit_bias(fields);
  take(fields.integer("min_tokens", 0, kMaxInt32), sampling.min_tokens);
  const auto seed =
      fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  if (seed) sampling.seed = static_cast<std::uint64_t>(*seed);
  return sampling;
}

}  // namespace slip
