// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/simulation/pass_costs.h"
#include "engine/models/transformer.h"
#include "kernels/thread_pool.h"

namespace slip {

// The error of the costs on passes that they were not made from: |predicted − measured| / measured.
struct ProfileError {
  int passes = 0;
  double median = 0, worst = 0;
};

struct ModelProfile {
  std::string model;  // its folder's name
  PassCosts costs;
  std::optional<ProfileError> error;  // empty: the costs are calculated, not measured
};

// Times beside the passes, in µs.
struct OtherCosts {
  double step_us = 0;     // of a step: planning, bookkeeping
  double row_us = 0;      // of each row with logits: sampling, verification
  double request_us = 0;  // of a request before the engine sees it and after it has ended
};

// The costs of a target's and a draft's passes on a machine. `slipstream profile` writes it, `slipstream simulate`
// reads it.
struct Profile {
  std::string machine;  // for people
  ModelProfile target;
  std::optional<ModelProfile> draft;
  OtherCosts other;
};

std::string to_text(const Profile& profile);  // JSON
// Error{kNotFound | kInvalidArgument} naming the file and the key.
Profile read_profile(const std::filesystem::path& file);
// Whether the file is a profile, of any format.
bool is_profile(const std::filesystem::path& file);

// Called with a line about what is measured now.
using ProfileObserver = std::function<void(const std::string&)>;

// Measures passes of the model on the pool's threads: medians of rounds in turns, so that drift of the machine affects
// all shapes alike. Takes seconds for a small model, minutes for one of 8B. Threads: one, the pool's caller.
ModelProfile measure_model(const std::string& name, const std::shared_ptr<const ModelWeights>& weights,
                           kernels::ThreadPool& pool, const ProfileObserver& observer);

// Measures what plain decoding's steps take beside their passes, with one answer and with several. request_us is 0.
OtherCosts measure_other_costs(const std::shared_ptr<const ModelWeights>& weights, kernels::ThreadPool& pool,
                               const ProfileObserver& observer);

}  // namespace slip
