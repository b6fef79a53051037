// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/speculative/draft_model_proposer.h"
#include "tests/engine/draft_tasks.h"
#include "tests/engine/tiny_draft.h"
#include "tests/engine/toy_target.h"

namespace slip {

using testing::draft_tasks;
using testing::draft_version;
using testing::make_live_draft;
using testing::tiny_draft;
using testing::tiny_draft_config;

inline constexpr std::int32_t kVocab = 23;

// A sequence as a proposer sees it, without an engine.
struct Drafted {
  Drafted(std::uint64_t id, std::vector<std::int32_t> prompt, std::shared_ptr<LiveDraft> from)
      : tokens(std::move(prompt)), live_draft(std::move(from)) {
    ref.id = {id};
    ref.prompt_tokens = static_cast<std::int32_t>(tokens.size());
    ref.max_total_tokens = 400;
    ref.sampling = &sampling;
    ref.rule = AcceptanceRule::kCoupled;
    ref.live_draft = live_draft.get();
  }
  SequenceRef view() {
    ref.tokens = tokens;
    return ref;
  }
  std::vector<std::int32_t> tokens;
  std::shared_ptr<LiveDraft> live_draft;
  SamplingParams sampling{.temperature = 1, .seed = 11};
  SequenceRef ref;
};

// Catches up completely, then proposes k tokens for each.
inline std::vector<Proposal> propose(DraftModelProposer& proposer, const std::vector<Drafted*>& sequences,
                                     std::int32_t k, std::int32_t width = 1) {
  std::vector<SequenceRef> refs;
  for (Drafted* sequence : sequences) refs.push_back(sequence->view());
  for (int i = 0; i < 20; ++i) proposer.catch_up(draft_tasks(refs), {16, 16});
  const std::vector<std::int32_t> nodes(refs.size(), k);
  std::vector<Proposal> proposals(refs.size());
  proposer.propose(draft_tasks(refs, nodes, proposals, width));
  return proposals;
}

// Tells the proposer of a verification and adds its tokens.
inline void commit(DraftModelProposer& proposer, Drafted& sequence, const Proposal& proposal,
                   const VerifyResult& result) {
  proposer.on_verified(sequence.view(), result);
  for (const std::int32_t node : result.accepted) {
    sequence.tokens.push_back(proposal.tokens[static_cast<std::size_t>(node)]);
  }
  sequence.tokens.push_back(result.added_token);
}

class DraftModelProposerTest : public ::testing::Test {
 protected:
  DraftModelProposer make(std::int32_t n_pages = 200) {
    return {{.n_pages = n_pages, .max_running = 8, .prompt_chunk = 16, .catch_up_chunk = 16},
            testing::toy_config(kVocab),
            pool_};
  }
  // The proposal of a new proposer after these tokens.
  Proposal fresh(const std::vector<std::int32_t>& tokens, std::int32_t prompt_tokens,
                 std::shared_ptr<LiveDraft> live_draft, std::int32_t k, std::int32_t width = 1) {
    auto proposer = make();
    Drafted sequence(99, tokens, std::move(live_draft));
    sequence.ref.prompt_tokens = prompt_tokens;
    proposer.begin(sequence.view());
    return propose(proposer, {&sequence}, k, width)[0];
  }

  kernels::ThreadPool pool_{1};
};

inline std::vector<std::int32_t> prompt_of(std::int32_t n, std::int32_t step) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < n; ++i) prompt.push_back((i * step + step) % kVocab);
  return prompt;
}

}  // namespace slip
