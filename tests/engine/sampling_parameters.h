// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/sampling/distribution.h"

namespace slip::testing {

// One setting of one sampling parameter, strong enough to show.
struct SamplingParameter {
  const char* name;
  void (*set)(SamplingParams&);
};

inline const std::vector<SamplingParameter>& sampling_parameters() {
  static const std::vector<SamplingParameter> all = {
      {"temperature", [](SamplingParams& sampling) { sampling.temperature = 0.6F; }},
      {"top_p", [](SamplingParams& sampling) { sampling.top_p = 0.8F; }},
      {"top_k", [](SamplingParams& sampling) { sampling.top_k = 2; }},
      {"min_p", [](SamplingParams& sampling) { sampling.min_p = 0.35F; }},
      {"repetition_penalty", [](SamplingParams& sampling) { sampling.repetition_penalty = 1.8F; }},
      {"presence_penalty", [](SamplingParams& sampling) { sampling.presence_penalty = 1.5F; }},
      {"frequency_penalty", [](SamplingParams& sampling) { sampling.frequency_penalty = -1.2F; }},
      {"logit_bias",
       [](SamplingParams& sampling) {
         sampling.logit_bias = {{0, 1.5F}, {3, -1}};
       }},
      {"min_tokens", [](SamplingParams& sampling) { sampling.min_tokens = 2; }},
  };
  return all;
}

struct NamedSampling {
  std::string name;
  SamplingParams sampling;
};

// Every parameter alone, then every two together.
inline std::vector<NamedSampling> alone_and_in_pairs() {
  const auto& all = sampling_parameters();
  std::vector<NamedSampling> cases;
  for (const SamplingParameter& one : all) one.set(cases.emplace_back(NamedSampling{one.name, {}}).sampling);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      NamedSampling& both = cases.emplace_back(NamedSampling{std::string(all[i].name) + " and " + all[j].name, {}});
      all[i].set(both.sampling);
      all[j].set(both.sampling);
    }
  }
  return cases;
}

}  // namespace slip::testing
