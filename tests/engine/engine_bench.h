// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/toy_proposer.h"

namespace slip::testing {

// An engine on the toy language, with all objects that a test may inspect.
struct EngineBench {
  explicit EngineBench(ToyLanguage spoken = {}, const EngineOptions& options = {}, ToyWorker::Size size = {},
                       std::shared_ptr<const Tokenizer> tokenizer = nullptr)
      : language(std::move(spoken)) {
    auto owned_worker = std::make_unique<ToyWorker>(language, size);
    auto owned_proposer = std::make_unique<ToyProposer>(language, ToyProposer::Options{.likeness = 1});
    worker = owned_worker.get();
    proposer = owned_proposer.get();
    engine = std::make_unique<Engine>(options, std::move(owned_worker), std::move(tokenizer), std::move(owned_proposer),
                                      &observations, std::vector<StepListener*>{&listener});
  }

  Request request(std::uint64_t id, Answer& answer, std::int32_t max_tokens = 12) const {
    Request asked = full_request(id, {static_cast<std::int32_t>(id) % language.vocab_size}, answer);
    asked.sampling.temperature = 0;
    asked.max_tokens = max_tokens;
    asked.draft = empty_live_draft();
    return asked;
  }

  ToyLanguage language;
  ToyWorker* worker = nullptr;
  ToyProposer* proposer = nullptr;
  RecordingListener listener;
  RecordingObservations observations;
  std::unique_ptr<Engine> engine;
};

}  // namespace slip::testing
