// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "engine/models/transformer.h"
#include "engine/speculative/local_verifier.h"

namespace slip {

// The target as the engine takes it: the worker that runs its passes, and the verifier that uses them.
struct Target {
  // Verified on the host; `pool` as in LocalVerifier.
  template <std::derived_from<Worker> Runs>
  Target(std::unique_ptr<Runs> runs,  // NOLINT(google-explicit-constructor): a worker is all that it takes
         kernels::ThreadPool* pool = nullptr)
      : worker(std::move(runs)), verifier(std::make_unique<LocalVerifier>(*worker, pool)) {}
  Target(std::unique_ptr<Worker> runs, std::unique_ptr<Verifier> answers)
      : worker(std::move(runs)), verifier(std::move(answers)) {}

  std::unique_ptr<Worker> worker;
  std::unique_ptr<Verifier> verifier;
};

}  // namespace slip
