// SPDX-License-Identifier: Apache-2.0
#include "engine/models/rope.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace slip {
namespace {

// Wavelengths up to original / high_freq_factor stay; those beyond original / low_freq_factor grow by the factor. In
// between, the frequency is blended by the number of turns within the original context.
float llama3_frequency(const RopeScaling& scaling, float frequency) {
  const auto original = static_cast<float>(scaling.original_max_positions);
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// The dimension pairs over which yarn blends: those before `low` stay, those from `high` on are stretched.
struct YarnBorders {
  double low, high;
};

YarnBorders yarn_borders(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const double dim = config.head_dim;
  // The dimension that makes `turns` turns within the original context.
  const auto dimension_of = [&](double turns) {
    return dim * std::log(scaling.original_max_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.rope_theta));
  };
  YarnBorders borders{dimension_of(scaling.beta_fast), dimension_of(scaling.beta_slow)};
  if (scaling.truncate) borders = {std::floor(borders.low), std::ceil(borders.high)};
  borders = {std::max(borders.low, 0.0), std::min(borders.high, dim - 1)};
  if (borders.low == borders.high) borders.high += 0.001;  // a step, not a division by zero
  return borders;
}

float yarn_frequency(const YarnBorders& borders, float factor, std::int64_t pair, float inverse) {
  const float along =
      (static_cast<float>(pair) - static_cast<float>(borders.low)) / static_cast<float>(borders.high - borders.low);
  const float kept = 1.0F - std::clamp(along, 0.0F, 1.0F);
  return 1.0F / (factor * inverse) * (1.0F - kept) + 1.0F / inverse * kept;
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto factor = static_cast<float>(scaling.factor);
  const bool is_yarn = scaling.type == RopeType::kYarn;
  const YarnBorders borders = is_yarn ? yarn_borders(config) : YarnBorders{};
  std::vector<float> frequencies;
  for (std::int64_t pair = 0; pair < config.head_dim / 2; ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(config.head_dim);
    const float inverse = std::pow(static_cast<float>(config.rope_theta), exponent);
    float frequency = 1.0F / inverse;
    if (scaling.type == RopeType::kLinear) frequency /= factor;
    if (scaling.type == RopeType::kLlama3) frequency = llama3_frequency(scaling, frequency);
    if (is_yarn) frequency = yarn_frequency(borders, factor, pair, inverse);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTable::RopeTable(const ModelConfig& config) {
  const std::vector<float> frequencies = rope_frequencies(config);
  const auto factor = static_cast<float>(config.rope_scaling.attention_factor);
  const std::size_t half = frequencies.size();
  cos.resize(static_cast<std::size_t>(config.max_positions) * half);
  sin.resize(cos.size());
  for (std::size_t i = 0; i < half; ++i) {
    for (std::int32_t position = 0; position < config.max_positions; ++position) {
      const double angle = static_cast<float>(position) * frequencies[i];
      const std::size_t at = static_cast<std::size_t>(position) * half + i;
      cos[at] = static_cast<float>(std::cos(angle)) * factor;
      sin[at] = static_cast<float>(std::sin(angle)) * factor;
    }
  }
}

}  // namespace slip
