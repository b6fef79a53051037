// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/draft_model_proposer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/engine/draft_tasks.h"
#include "tests/engine/tiny_draft.h"
#include "tests/engine/toy_target.h"

namespace slip {
namespace {

using testing::draft_tasks;
using testing::draft_version;
using testing::make_live_draft;
using testing::tiny_draft;
using testing::tiny_draft_config;

constexpr std::int32_t kVocab = 23;

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
std::vector<Proposal> propose(DraftModelProposer& proposer, std::vector<Drafted*> sequences, std::int32_t k,
                              std::int32_t width = 1) {
  std::vector<SequenceRef> refs;
  for (Drafted* sequence : sequences) refs.push_back(sequence->view());
  for (int i = 0; i < 20; ++i) proposer.catch_up(draft_tasks(refs), {16, 16});
  const std::vector<std::int32_t> nodes(refs.size(), k);
  std::vector<Proposal> proposals(refs.size());
  proposer.propose(draft_tasks(refs, nodes, proposals, width));
  return proposals;
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

std::vector<std::int32_t> prompt_of(std::int32_t n, std::int32_t step) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < n; ++i) prompt.push_back((i * step + step) % kVocab);
  return prompt;
}

TEST_F(DraftModelProposerTest, ProposesWhatTheTextSuggests) {
  std::vector<std::int32_t> tokens = prompt_of(6, 5);
  for (int i = 0; i < 5; ++i) tokens.insert(tokens.end(), {20, 21, 22, 19});
  for (const float temperature : {0.0F, 1.0F}) {
    std::vector<std::int32_t> proposed[2];
    for (const bool prompt_lookup : {false, true}) {
      DraftModelProposer proposer({.n_pages = 200, .max_running = 8, .prompt_lookup = prompt_lookup},
                                  testing::toy_config(kVocab), pool_);
      Drafted sequence(1, tokens, make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
      sequence.ref.prompt_tokens = 6;
      sequence.sampling.temperature = temperature;
      sequence.ref.rule = AcceptanceRule::kRejection;
      proposer.begin(sequence.view());
      const Proposal proposal = propose(proposer, {&sequence}, 4)[0];
      proposed[prompt_lookup ? 1 : 0] = proposal.tokens;
      EXPECT_EQ(proposal.confidence > 0, prompt_lookup);
      EXPECT_EQ(proposer.guesses(sequence.view()).confidence, proposal.confidence);
      if (temperature == 0) continue;
      ASSERT_EQ(proposal.q.size(), 4U);
      if (prompt_lookup) {
        EXPECT_GT(proposal.q[0].probability(20), 0.5);
      } else {
        EXPECT_LT(proposal.q[0].probability(20), 0.2);
      }
    }
    if (temperature > 0) continue;
    EXPECT_EQ(proposed[1], (std::vector<std::int32_t>{20, 21, 22, 19}));
    EXPECT_NE(proposed[0], proposed[1]);
  }
}

// ---- siblings ----

// The order in which the target's noise, or none, would choose tokens from q.
std::vector<std::int32_t> choices(Distribution q, const RandomAddress& address, bool greedy, std::size_t n) {
  std::vector<std::int32_t> tokens;
  while (tokens.size() < n) {
    const auto best = std::max_element(q.probabilities.begin(), q.probabilities.end()) - q.probabilities.begin();
    tokens.push_back(greedy ? q.ids[static_cast<std::size_t>(best)] : sample_gumbel(q, address));
    remove_id(tokens.back(), q);
  }
  return tokens;
}

// The distribution behind `path` by a draft of its own, which proposes one token by sampling.
Distribution q_behind(kernels::ThreadPool& pool, const std::vector<std::int32_t>& path,
                      const std::shared_ptr<LiveDraft>& live_draft) {
  DraftModelProposer proposer({.n_pages = 200, .max_running = 8}, testing::toy_config(kVocab), pool);
  Drafted sequence(1, path, live_draft);
  sequence.ref.rule = AcceptanceRule::kRejection;
  proposer.begin(sequence.view());
  return propose(proposer, {&sequence}, 1)[0].q[0];
}

TEST_F(DraftModelProposerTest, SiblingsAreTheNextBestChoices) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  const std::vector<std::int32_t> tokens = prompt_of(9, 5);
  for (const float temperature : {0.0F, 1.0F}) {
    auto proposer = make();
    Drafted sequence(1, tokens, live_draft);
    sequence.ref.prompt_tokens = 5;
    sequence.sampling.temperature = temperature;
    proposer.begin(sequence.view());
    const Proposal chain = propose(proposer, {&sequence}, 4)[0];
    const Proposal tree = propose(proposer, {&sequence}, 4, 3)[0];
    EXPECT_EQ(tree.chain_length(), 4);
    EXPECT_EQ(tree.size(), 12U);
    EXPECT_EQ(std::vector(tree.tokens.begin(), tree.tokens.begin() + 4), chain.tokens);
    std::vector<std::int32_t> path = tokens;
    for (std::size_t place = 0; place < 4; ++place) {
      RandomAddress address = sequence.view().next_address();
      address.output_index += static_cast<std::uint32_t>(place);
      const auto expected = choices(q_behind(pool_, path, live_draft), address, temperature == 0, 3);
      EXPECT_EQ(tree.tokens[place], expected[0]);
      EXPECT_EQ(tree.tokens[4 + place], expected[1]) << place;
      EXPECT_EQ(tree.tokens[8 + place], expected[2]) << place;
      EXPECT_EQ(tree.rank_of(static_cast<std::int32_t>(8 + place)), 2);
      path.push_back(tree.tokens[place]);
    }
  }
}

TEST_F(DraftModelProposerTest, SampledSiblingsComeFromWhatTheirEldersLeave) {
  auto proposer = make();
  Drafted sequence(1, prompt_of(9, 5), make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
  sequence.ref.rule = AcceptanceRule::kRejection;
  proposer.begin(sequence.view());
  const Proposal tree = propose(proposer, {&sequence}, 2, 3)[0];
  ASSERT_EQ(tree.q.size(), 6U);
  for (std::size_t place = 0; place < 2; ++place) {
    Distribution left = tree.q[place];
    for (std::size_t node = place + 2; node < 6; node += 2) {
      remove_id(tree.tokens[node - 2], left);
      EXPECT_EQ(tree.q[node].ids, left.ids);
      EXPECT_EQ(tree.q[node].probabilities, left.probabilities);
      EXPECT_GT(left.probability(tree.tokens[node]), 0);
    }
  }
}

// What the draft would have said stands beside a guess that it disagrees with.
TEST_F(DraftModelProposerTest, AGuessAndTheDraftAreSiblings) {
  std::vector<std::int32_t> tokens = prompt_of(6, 5);
  for (int i = 0; i < 3; ++i) tokens.insert(tokens.end(), {20, 21, 22, 19});
  std::vector<std::int32_t> best;
  for (const bool prompt_lookup : {false, true}) {
    DraftModelProposer proposer({.n_pages = 200, .max_running = 8, .prompt_lookup = prompt_lookup},
                                testing::toy_config(kVocab), pool_);
    Drafted sequence(1, tokens, make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
    sequence.ref.prompt_tokens = 6;
    sequence.sampling.temperature = 0;
    proposer.begin(sequence.view());
    best = propose(proposer, {&sequence}, 1, 2)[0].tokens;
    if (prompt_lookup) {
      EXPECT_EQ(best[0], 20);
    }
    ASSERT_EQ(best.size(), 2U);
    EXPECT_NE(best[0], best[1]);
  }
  Drafted sequence(1, tokens, make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
  sequence.sampling.temperature = 0;
  auto alone = make();
  alone.begin(sequence.view());
  EXPECT_EQ(best[1], propose(alone, {&sequence}, 1)[0].tokens[0]);
}

// A sibling was not read by the draft: only the accepted chain before it stays in its cache.
TEST_F(DraftModelProposerTest, AfterAnAcceptedSiblingItProposesWhatANewOneWould) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(9, 5), live_draft);
  proposer.begin(sequence.view());
  for (int round = 0; round < 4; ++round) {
    const Proposal tree = propose(proposer, {&sequence}, 3, 2)[0];
    VerifyResult result{.accepted = {0, 1, 5}, .added_token = round};  // two of the chain, then the third's sibling
    proposer.on_verified(sequence.view(), result);
    for (const std::int32_t node : result.accepted)
      sequence.tokens.push_back(tree.tokens[static_cast<std::size_t>(node)]);
    sequence.tokens.push_back(result.added_token);
    EXPECT_EQ(propose(proposer, {&sequence}, 3, 2)[0].tokens, fresh(sequence.tokens, 9, live_draft, 3, 2).tokens)
        << round;
  }
}

// ---- early stops ----

// Proposes up to 6 tokens for each with this rule; `proposer` has caught up.
std::vector<Proposal> propose_until(DraftModelProposer& proposer, std::vector<Drafted*> sequences,
                                    const StopRule& stop) {
  std::vector<SequenceRef> refs;
  for (Drafted* sequence : sequences) {
    refs.push_back(sequence->view());
    refs.back().wants_probability = true;
  }
  const std::vector<std::int32_t> nodes(refs.size(), 6);
  std::vector<Proposal> proposals(refs.size());
  auto tasks = draft_tasks(refs, nodes, proposals);
  for (DraftTask& task : tasks) task.stop = stop;
  proposer.catch_up(tasks, {16, 16});
  proposer.propose(tasks);
  return proposals;
}

TEST_F(DraftModelProposerTest, AChainEndsWhereItsNextTokenIsNotWorthItsTime) {
  const ChoiceRates rates;  // as the draft's probabilities say, which are about .2 for its best tokens
  for (const float temperature : {0.0F, 1.0F}) {
    auto proposer = make();
    Drafted first(1, prompt_of(9, 5), make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
    Drafted second(2, prompt_of(12, 7), first.live_draft);
    for (Drafted* sequence : {&first, &second}) {
      sequence->sampling.temperature = temperature;
      proposer.begin(sequence->view());
    }
    propose(proposer, {&first, &second}, 1);
    const auto lengths = [&](const StopRule& stop) {
      const std::int64_t before = proposer.n_passes();
      std::vector<std::int64_t> found;
      for (const Proposal& proposal : propose_until(proposer, {&first, &second}, stop)) {
        found.push_back(proposal.chain_length());
      }
      EXPECT_EQ(proposer.n_passes() - before, std::max(found[0], found[1])) << "no pass is wasted";
      return found;
    };
    using Lengths = std::vector<std::int64_t>;
    EXPECT_EQ(lengths({}), (Lengths{6, 6})) << "without a rule";
    EXPECT_EQ(lengths({&rates, 1, 0, 0}), (Lengths{6, 6})) << "what costs nothing is always worth it";
    EXPECT_EQ(lengths({&rates, 1, 0.99, 0}), (Lengths{1, 1})) << "the first token was planned";
    EXPECT_EQ(lengths({&rates, 1, 0, 2.0}), (Lengths{1, 1})) << "two chains can add two tokens a pass at most";
    EXPECT_EQ(lengths({&rates, 0, 0.01, 0}), (Lengths{1, 1})) << "nothing is accepted behind a first token";
    const Lengths some = lengths({&rates, 1, 0.002, 0});
    EXPECT_GT(some[0] + some[1], 2);
    EXPECT_LT(some[0] + some[1], 12);
  }
}

// ---- sure guesses ----

// The text goes round for so long that what follows is sure.
std::vector<std::int32_t> sure_text() {
  std::vector<std::int32_t> tokens = prompt_of(6, 5);
  for (int i = 0; i < 14; ++i) tokens.insert(tokens.end(), {20, 21, 22, 19});
  return tokens;
}

TEST_F(DraftModelProposerTest, SureGuessesNeedNoPass) {
  for (const float temperature : {0.0F, 1.0F}) {
    DraftModelProposer proposer({.n_pages = 200, .max_running = 8, .prompt_lookup = true}, testing::toy_config(kVocab),
                                pool_);
    Drafted sequence(1, sure_text(), make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
    sequence.ref.prompt_tokens = 6;
    sequence.sampling.temperature = temperature;
    sequence.ref.rule = AcceptanceRule::kRejection;
    proposer.begin(sequence.view());
    EXPECT_EQ(proposer.ready_depth(sequence.view()), 0) << "the draft is behind";
    const Proposal proposal = propose(proposer, {&sequence}, 7)[0];
    const std::int64_t n_passes = proposer.n_passes();
    const Proposal again = propose(proposer, {&sequence}, 7)[0];
    EXPECT_EQ(proposer.n_passes(), n_passes);
    for (const Proposal& made : {proposal, again}) {
      EXPECT_EQ(made.tokens, (std::vector<std::int32_t>{20, 21, 22, 19, 20, 21, 22}));
      for (const Distribution& q : made.q) EXPECT_EQ(q.probabilities, std::vector<double>{1.0});
      EXPECT_EQ(made.q.size(), temperature == 0 ? 0U : 7U);
    }
  }
}

// Guesses need no draft, which may be behind; afterwards it proposes what one that read along does.
TEST_F(DraftModelProposerTest, GuessesCanBeProposedInsteadOfTheDraftsTokens) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  DraftModelProposer proposer({.n_pages = 200, .max_running = 8, .prompt_lookup = true}, testing::toy_config(kVocab),
                              pool_);
  Drafted sequence(1, sure_text(), live_draft);
  sequence.ref.prompt_tokens = 6;
  sequence.sampling.temperature = 1;
  proposer.begin(sequence.view());
  const std::vector<SequenceRef> refs{sequence.view()};
  std::vector<Proposal> proposals(1);
  auto tasks = draft_tasks(refs, {5}, proposals);
  tasks[0].guessed = true;
  proposer.propose(tasks);
  const auto guesses = proposer.guesses(sequence.view()).tokens;
  EXPECT_EQ(proposals[0].tokens, std::vector<std::int32_t>(guesses.begin(), guesses.begin() + 5));
  EXPECT_EQ(proposals[0].draw_method, DrawMethod::kDeterministic);
  EXPECT_EQ(proposals[0].version, 1U);
  EXPECT_EQ(proposer.n_passes(), 0);
  auto alone = make();
  Drafted other(2, sure_text(), live_draft);
  other.sampling = sequence.sampling;
  alone.begin(other.view());
  EXPECT_TRUE(alone.guesses(other.view()).tokens.empty()) << "without prompt lookup";
}

TEST_F(DraftModelProposerTest, TheDraftFillsInBehindSureGuesses) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  DraftModelProposer proposer({.n_pages = 200, .max_running = 8, .prompt_lookup = true}, testing::toy_config(kVocab),
                              pool_);
  std::vector<std::int32_t> tokens(17), prediction;
  std::iota(tokens.begin(), tokens.end(), 0);
  for (std::int32_t token = 5; token < 20; ++token) prediction.push_back(token);
  Drafted sequence(1, tokens, live_draft);
  sequence.ref.prompt_tokens = 5;
  sequence.ref.prediction = prediction;
  sequence.sampling.temperature = 0;
  proposer.begin(sequence.view());
  const std::vector<SequenceRef> refs{sequence.view()};
  for (int i = 0; i < 20; ++i) proposer.catch_up(draft_tasks(refs), {16, 16});
  const std::int64_t n_passes = proposer.n_passes();
  const Proposal proposal = propose(proposer, {&sequence}, 5)[0];
  EXPECT_EQ(proposer.n_passes(), n_passes + 2) << "the guesses are read with the first drafted token";
  for (const std::int32_t token : {17, 18, 19}) tokens.push_back(token);
  auto alone = make();
  Drafted behind(2, tokens, live_draft);
  behind.sampling.temperature = 0;
  alone.begin(behind.view());
  const Proposal filled = propose(alone, {&behind}, 2)[0];
  tokens.insert(tokens.end(), filled.tokens.begin(), filled.tokens.end());
  EXPECT_EQ(proposal.tokens, std::vector<std::int32_t>(tokens.end() - 5, tokens.end()));
}

// After any verification the cache holds exactly the committed tokens: proposals equal those of a new proposer.
TEST_F(DraftModelProposerTest, WhatItReadBeforeNeverShows) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(20, 3), live_draft);
  proposer.begin(sequence.view());
  for (std::int32_t turn = 0; turn < 12; ++turn) {
    constexpr std::int32_t kNodes = 4;
    const Proposal proposal = propose(proposer, {&sequence}, kNodes)[0];
    const Proposal expected = fresh(sequence.tokens, sequence.ref.prompt_tokens, live_draft, kNodes);
    ASSERT_EQ(proposal.tokens, expected.tokens) << "turn " << turn;
    ASSERT_EQ(proposal.path_logprob, expected.path_logprob) << "turn " << turn;
    VerifyResult result;
    for (std::int32_t i = 0; i < turn % (kNodes + 1); ++i) result.accepted.push_back(i);
    result.added_token = turn % kVocab;
    proposer.on_verified(sequence.view(), result);
    for (const std::int32_t node : result.accepted)
      sequence.tokens.push_back(proposal.tokens[static_cast<std::size_t>(node)]);
    sequence.tokens.push_back(result.added_token);
  }
}

TEST_F(DraftModelProposerTest, CompanyAndVersionsInOneBatchDoNotChangeAProposal) {
  const auto live_draft_a = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  const auto live_draft_b = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 2));
  const auto live_draft_c = make_live_draft(tiny_draft(tiny_draft_config(kVocab, 512, 48), 3));  // another shape
  std::vector<std::unique_ptr<Drafted>> sequences;
  auto proposer = make();
  std::vector<Drafted*> all;
  for (std::uint64_t id = 0; id < 6; ++id) {
    const auto& live_draft = id % 3 == 0 ? live_draft_a : id % 3 == 1 ? live_draft_b : live_draft_c;
    sequences.push_back(std::make_unique<Drafted>(id, prompt_of(9 + static_cast<std::int32_t>(id) * 5, 5), live_draft));
    proposer.begin(sequences.back()->view());
    all.push_back(sequences.back().get());
  }
  const auto together = propose(proposer, all, 5);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Proposal alone = fresh(all[i]->tokens, all[i]->ref.prompt_tokens, all[i]->live_draft, 5);
    EXPECT_EQ(together[i].tokens, alone.tokens);
    EXPECT_EQ(together[i].draw_method, DrawMethod::kGumbel);
    EXPECT_EQ(together[i].path_logprob, alone.path_logprob);
  }
  EXPECT_NE(together[0].tokens, together[1].tokens);
}

// Whatever versions a batch mixes: one pass per depth and shape, not per version or sequence.
TEST_F(DraftModelProposerTest, VersionsOfOneShapeShareEveryPass) {
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;
  for (const std::uint64_t seed : {1, 2, 3})
    live_drafts.push_back(make_live_draft(tiny_draft(tiny_draft_config(kVocab), seed)));
  live_drafts.push_back(make_live_draft(tiny_draft(tiny_draft_config(kVocab, 512, 48), 4)));  // another shape
  for (const std::size_t n_live_drafts : {1, 3, 4}) {
    auto proposer = make();
    std::vector<std::unique_ptr<Drafted>> sequences;
    std::vector<SequenceRef> refs;
    for (std::uint64_t id = 0; id < 8; ++id) {
      sequences.push_back(std::make_unique<Drafted>(id, prompt_of(5, 3), live_drafts[id % n_live_drafts]));
      proposer.begin(sequences.back()->view());
      refs.push_back(sequences.back()->ref);
    }
    const std::vector<std::int32_t> nodes(refs.size(), 5);
    std::vector<Proposal> proposals(refs.size());
    proposer.propose(draft_tasks(refs, nodes, proposals));
    for (const Proposal& proposal : proposals) EXPECT_EQ(proposal.size(), 5U);
    EXPECT_EQ(proposer.n_passes(), n_live_drafts == 4 ? 10 : 5);
  }
}

TEST_F(DraftModelProposerTest, ASwapCatchesUpInChunksThenSwitches) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(50, 3), live_draft);
  proposer.begin(sequence.view());
  propose(proposer, {&sequence}, 2);
  const auto newer = tiny_draft(tiny_draft_config(kVocab), 2);
  live_draft->set(draft_version(newer, 2));
  std::vector<std::uint64_t> versions;
  for (int i = 0; i < 4; ++i) {
    const std::vector<SequenceRef> refs{sequence.view()};
    proposer.catch_up(draft_tasks(refs), {16, 16});
    std::vector<Proposal> proposals(1);
    proposer.propose(draft_tasks(refs, {1}, proposals));
    proposer.on_verified(refs[0], {.added_token = 1});
    sequence.tokens.push_back(1);
    versions.push_back(proposals[0].version);
  }
  EXPECT_EQ(versions,
            (std::vector<std::uint64_t>{1, 1, 2, 2}));  // some 50 rows at 16 a call, the last few when proposing
  EXPECT_EQ(propose(proposer, {&sequence}, 4)[0].tokens, fresh(sequence.tokens, 50, live_draft, 4).tokens);
}

// Where no draft pays, prompts are not read either. Once it may pay, the sequence begins anew with the live version.
TEST_F(DraftModelProposerTest, ASequenceThatIsNotReadCostsNothingAndComesBack) {
  auto proposer = make();
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  Drafted sequence(1, prompt_of(40, 7), live_draft);
  proposer.begin(sequence.view());
  const auto catch_up = [&](bool reads) {
    const std::vector<SequenceRef> refs{sequence.view()};
    auto tasks = draft_tasks(refs);
    tasks[0].reads = reads;
    for (int i = 0; i < 10; ++i) proposer.catch_up(tasks, {16, 16});
  };
  catch_up(false);
  EXPECT_EQ(proposer.n_passes(), 0);
  EXPECT_EQ(proposer.ready_depth(sequence.view()), 0);
  catch_up(true);
  EXPECT_GT(proposer.ready_depth(sequence.view()), 0);
  const auto more = prompt_of(20, 5);
  sequence.tokens.insert(sequence.tokens.end(), more.begin(), more.end());
  catch_up(false);
  EXPECT_EQ(proposer.ready_depth(sequence.view()), 0) << "it fell behind";
  const auto newer = tiny_draft(tiny_draft_config(kVocab), 2);
  live_draft->set(draft_version(newer, 2));
  const Proposal proposal = propose(proposer, {&sequence}, 4)[0];
  EXPECT_EQ(proposal.version, 2U);
  EXPECT_EQ(proposal.tokens, fresh(sequence.tokens, 40, live_draft, 4).tokens);
}

TEST_F(DraftModelProposerTest, HoldsTwoVersionsAtMostAndDropsNoLastReference) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(60, 3), live_draft);
  proposer.begin(sequence.view());
  propose(proposer, {&sequence}, 1);
  std::vector<std::weak_ptr<const DraftVersion>> versions{live_draft->get()};
  for (std::uint64_t number = 2; number <= 4; ++number) {
    live_draft->set(draft_version(tiny_draft(tiny_draft_config(kVocab), number), number));
    versions.push_back(live_draft->get());
    proposer.catch_up(draft_tasks(std::vector<SequenceRef>{sequence.view()}), {1, 1});
  }
  live_draft->reclaim();
  EXPECT_FALSE(versions[0].expired());  // live
  EXPECT_FALSE(versions[1].expired());  // next
  EXPECT_TRUE(versions[2].expired());   // never opened: the newest waits
  EXPECT_EQ(propose(proposer, {&sequence}, 1)[0].version, 4U);
  proposer.release({1});
  EXPECT_FALSE(versions[0].expired());
  live_draft->reclaim();
  EXPECT_TRUE(versions[0].expired());
}

TEST_F(DraftModelProposerTest, RefusesANewVersionOfAnotherShape) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(12, 3), live_draft);
  proposer.begin(sequence.view());
  live_draft->set(draft_version(tiny_draft(tiny_draft_config(kVocab, 512, 48), 2), 2));
  EXPECT_EQ(propose(proposer, {&sequence}, 1)[0].version, 1U);
  live_draft->set(draft_version(tiny_draft(tiny_draft_config(kVocab), 3), 3));
  EXPECT_EQ(propose(proposer, {&sequence}, 1)[0].version, 3U);
}

TEST_F(DraftModelProposerTest, ADraftOfAnotherVocabularyIsNeverReady) {
  auto proposer = make();
  Drafted sequence(1, prompt_of(12, 3), make_live_draft(tiny_draft(tiny_draft_config(kVocab + 1), 1)));
  proposer.begin(sequence.view());
  EXPECT_EQ(proposer.ready_depth(sequence.view()), 0);
}

TEST_F(DraftModelProposerTest, IsNotReadyWhileItsPagesAreTakenAndCatchesUpLater) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make(/*n_pages=*/2);  // one sequence of 30 tokens takes them all
  Drafted first(1, prompt_of(30, 3), live_draft), second(2, prompt_of(30, 5), live_draft);
  proposer.begin(first.view());
  proposer.begin(second.view());
  EXPECT_EQ(propose(proposer, {&first}, 2)[0].size(), 2U);
  proposer.catch_up(draft_tasks(std::vector<SequenceRef>{second.view()}), {64, 64});
  EXPECT_EQ(proposer.ready_depth(second.view()), 0);
  proposer.release({1});
  EXPECT_EQ(propose(proposer, {&second}, 2)[0].tokens, fresh(second.tokens, 30, live_draft, 2).tokens);
}

TEST_F(DraftModelProposerTest, FallsBehindWhereThePoolIsFullAndCatchesUpLater) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make(/*n_pages=*/4);
  Drafted first(1, prompt_of(30, 3), live_draft), second(2, prompt_of(30, 5), live_draft);
  proposer.begin(first.view());
  proposer.begin(second.view());
  EXPECT_EQ(propose(proposer, {&first, &second}, 2)[0].size(), 2U);
  proposer.on_verified(first.view(), {.added_token = 1});
  first.tokens = prompt_of(70, 3);  // grows beyond its two pages
  const std::vector<SequenceRef> grown{first.view()};
  for (int i = 0; i < 5; ++i) proposer.catch_up(draft_tasks(grown), {16, 16});
  EXPECT_EQ(proposer.ready_depth(first.view()), 0);
  EXPECT_EQ(proposer.ready_depth(second.view()), kMaxProposalNodes);
  proposer.release({2});
  EXPECT_EQ(propose(proposer, {&first}, 2)[0].tokens, fresh(first.tokens, 30, live_draft, 2).tokens);
}

TEST_F(DraftModelProposerTest, StopsAtItsOwnContext) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab, /*max_positions=*/32), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(30, 3), live_draft);
  proposer.begin(sequence.view());
  // Positions 29, 30 and 31 can be read: three tokens can follow.
  EXPECT_EQ(propose(proposer, {&sequence}, 3)[0].size(), 3U);
  proposer.on_verified(sequence.view(), {.added_token = 1});
  EXPECT_EQ(proposer.ready_depth(sequence.view()), 3);
  for (int i = 0; i < 3; ++i) sequence.tokens.push_back(1);
  EXPECT_EQ(proposer.ready_depth(sequence.view()), 0);
}

TEST_F(DraftModelProposerTest, ADraftWhoseNumbersBrokeProposesNoMore) {
  auto broken = std::make_shared<ModelWeights>();
  {
    auto whole = std::const_pointer_cast<ModelWeights>(tiny_draft(tiny_draft_config(kVocab), 1));
    *broken = std::move(*whole);
  }
  broken->final_norm[0] = NAN;
  const auto live_draft = make_live_draft(broken);
  auto proposer = make();
  Drafted sequence(1, prompt_of(12, 3), live_draft);
  proposer.begin(sequence.view());
  EXPECT_EQ(propose(proposer, {&sequence}, 3)[0].size(), 0U);
  EXPECT_EQ(proposer.ready_depth(sequence.view()), 0);
  live_draft->set(draft_version(tiny_draft(tiny_draft_config(kVocab), 2), 2));
  EXPECT_EQ(propose(proposer, {&sequence}, 3)[0].size(), 3U);
}

}  // namespace
}  // namespace slip
