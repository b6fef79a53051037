// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/ids.h"
#include "common/purge_scope.h"
#include "distill/replay/replay_record.h"
#include "engine/request.h"

namespace slip {

// A topic's latest prompts, and how many further answers to each the learner may still ask for. The target samples them
// while the engine has nothing else to do: a draft learns more from four answers to a prompt than from one (bench/adapt
// --sampled). Holds at most 256 prompts of 65,536 tokens together; beyond that the oldest are dropped. Threads: one
// owner.
class AnswerSampler {
 public:
  // Adds the prompt of a client's answer.
  void add(const ReplayRecord& record, std::int32_t n_answers);
  void forget(const PurgeScope& scope);
  bool empty() const { return prompts_.empty(); }
  // A background request for one further answer, at temperature 1. Its limit is the length of the client's answer,
  // clamped to 16 … 256 tokens. Takes the prompt with the most answers left; of equals, the newest. `n` numbers the
  // background requests of this process: it becomes the id and the seed. Without end tokens and sink. REQUIRES:
  // !empty().
  Request next(RouteTag route, std::uint64_t n);
  std::uint64_t bytes() const { return n_tokens_ * sizeof(std::int32_t) + prompts_.size() * sizeof(Prompt); }

 private:
  struct Prompt {
    PromptSource source;
    TenantId tenant;
    std::vector<std::int32_t> tokens;
    std::int32_t max_tokens = 0;
    std::int32_t n_left = 0;  // at least 1
  };

  std::deque<Prompt> prompts_;  // oldest first
  std::size_t n_tokens_ = 0;    // of all prompts
};

}  // namespace slip
