// SPDX-License-Identifier: Apache-2.0
// What a draft has read: other sequences in a batch, swaps of versions, and caches that are full.
#include <algorithm>
#include <numeric>

#include "tests/engine/speculative/draft_model_proposer_fixture.h"

namespace slip {
namespace {

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
