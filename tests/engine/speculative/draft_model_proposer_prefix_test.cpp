// SPDX-License-Identifier: Apache-2.0
// The prefix cache of the drafts: proposals are the same to the bit, and what was read before is not read again.
#include "tests/engine/speculative/draft_model_proposer_fixture.h"

namespace slip {
namespace {

constexpr std::int32_t kPage = PagePool::kPageTokens;
constexpr std::int32_t kPrompt = 2 * kPage + 16;
constexpr std::int32_t kAllRows = kPrompt - 1;  // propose() reads the last token
constexpr std::int32_t kNewRows = kAllRows - 2 * kPage;
constexpr std::int32_t kNodes = 4;

// Catches up completely; returns the number of rows that took.
std::int32_t read(DraftModelProposer& proposer, Drafted& sequence) {
  std::int32_t all = 0;
  for (int i = 0; i < 20; ++i) {
    std::int32_t rows = 0;
    const std::vector<SequenceRef> refs{sequence.view()};
    auto tasks = draft_tasks(refs);
    tasks[0].rows_read = &rows;
    proposer.catch_up(tasks, {16, 16});
    all += rows;
  }
  return all;
}

void expect_same(const Proposal& a, const Proposal& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.parents, b.parents);
  EXPECT_EQ(a.path_logprob, b.path_logprob);
  ASSERT_EQ(a.q.size(), b.q.size());
  for (std::size_t i = 0; i < a.q.size(); ++i) {
    EXPECT_EQ(a.q[i].ids, b.q[i].ids);
    EXPECT_EQ(a.q[i].probabilities, b.q[i].probabilities);
  }
}

class DraftPrefixTest : public DraftModelProposerTest {
 protected:
  DraftModelProposer with_prefixes(std::int32_t n_pages = 200, double share = 1) {
    return {{.n_pages = n_pages, .max_running = 8, .prompt_chunk = 16, .catch_up_chunk = 16, .prefix_cache = share},
            testing::toy_config(kVocab),
            pool_};
  }
  // A request with this prompt, from its begin to its end. Its proposal must be that of a proposer without a prefix
  // cache. Returns the rows that the draft read.
  std::int32_t rows_of(DraftModelProposer& proposer, const std::vector<std::int32_t>& prompt,
                       const std::shared_ptr<LiveDraft>& live_draft, std::uint64_t tenant = 1) {
    Drafted sequence(++last_id_, prompt, live_draft);
    sequence.ref.tenant = {tenant};
    proposer.begin(sequence.view());
    const std::int32_t rows = read(proposer, sequence);
    expect_same(propose(proposer, {&sequence}, kNodes)[0],
                fresh(prompt, sequence.ref.prompt_tokens, live_draft, kNodes));
    proposer.release(sequence.ref.id);
    return rows;
  }

  std::shared_ptr<LiveDraft> live_draft_ = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  std::uint64_t last_id_ = 0;
};

TEST_F(DraftPrefixTest, APromptThatWasReadIsNotReadAgain) {
  auto proposer = with_prefixes();
  const auto prompt = prompt_of(kPrompt, 3);
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kAllRows);
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kNewRows);
  auto without = with_prefixes(200, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(rows_of(without, prompt, live_draft_), kAllRows);
}

// Of the page in which the prompts part, the common slots are copied.
TEST_F(DraftPrefixTest, APromptThatPartsWithinAPageIsReadFromThere) {
  auto proposer = with_prefixes();
  auto prompt = prompt_of(kPrompt, 3);
  rows_of(proposer, prompt, live_draft_);
  constexpr std::int32_t kCommon = kPage + 20;
  prompt[kCommon] = (prompt[kCommon] + 1) % kVocab;
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kAllRows - kCommon);
  EXPECT_EQ(rows_of(proposer, prompt_of(kPrompt, 3), live_draft_), kNewRows) << "no page was written to";
}

// The last committed token is never taken from the cache, so that propose() has its logits.
TEST_F(DraftPrefixTest, APromptOfWholePagesLeavesItsLastToken) {
  auto proposer = with_prefixes();
  rows_of(proposer, prompt_of(kPrompt, 3), live_draft_);
  EXPECT_EQ(rows_of(proposer, prompt_of(2 * kPage, 3), live_draft_), 0);
  EXPECT_EQ(rows_of(proposer, prompt_of(kPage, 3), live_draft_), 0);
}

TEST_F(DraftPrefixTest, SampledProposalsAndTreesAreTheSame) {
  auto proposer = with_prefixes(), without = with_prefixes(200, 0);
  const auto prompt = prompt_of(kPrompt, 3);
  for (const AcceptanceRule rule : {AcceptanceRule::kRejection, AcceptanceRule::kCoupled}) {
    for (std::uint64_t id = 1; id <= 2; ++id) {
      std::vector<Proposal> both;
      for (DraftModelProposer* one : {&proposer, &without}) {
        Drafted sequence(id, prompt, live_draft_);
        sequence.ref.rule = rule;
        one->begin(sequence.view());
        both.push_back(propose(*one, {&sequence}, kNodes, 3)[0]);
        one->release({id});
      }
      EXPECT_EQ(both[0].size(), 12U);
      expect_same(both[0], both[1]);
    }
  }
}

TEST_F(DraftPrefixTest, NegativeAnotherTenantReadsAllOfIt) {
  auto proposer = with_prefixes();
  const auto prompt = prompt_of(kPrompt, 3);
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_, 1), kAllRows);
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_, 2), kAllRows);
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_, 1), kNewRows);
}

TEST_F(DraftPrefixTest, NegativeANewVersionReadsAllOfIt) {
  auto proposer = with_prefixes();
  const auto prompt = prompt_of(kPrompt, 3);
  const auto first = live_draft_->get()->weights;
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kAllRows);
  live_draft_->set(draft_version(tiny_draft(tiny_draft_config(kVocab), 2), 2));
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kAllRows);
  live_draft_->set(draft_version(first, 3));
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kNewRows) << "a rollback finds its pages again";
}

// A later version may get the address of one that was freed.
TEST_F(DraftPrefixTest, NegativeFreedWeightsLeaveTheirPagesToNoOther) {
  auto proposer = with_prefixes();
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto weights = tiny_draft(tiny_draft_config(kVocab), seed);
    EXPECT_EQ(rows_of(proposer, prompt_of(kPrompt, 3), make_live_draft(weights)), kAllRows) << seed;
  }
}

// Topics begin with the weights of the base draft.
TEST_F(DraftPrefixTest, DraftsOfTheSameWeightsShareTheirPages) {
  auto proposer = with_prefixes();
  const auto other = make_live_draft(live_draft_->get()->weights);
  EXPECT_EQ(rows_of(proposer, prompt_of(kPrompt, 3), live_draft_), kAllRows);
  EXPECT_EQ(rows_of(proposer, prompt_of(kPrompt, 3), other), kNewRows);
}

TEST_F(DraftPrefixTest, WhatANewVersionReadToTakeOverIsKeptToo) {
  auto proposer = with_prefixes();
  const auto prompt = prompt_of(kPrompt, 3);
  Drafted running(++last_id_, prompt, live_draft_);
  running.ref.tenant = {1};
  proposer.begin(running.view());
  read(proposer, running);
  live_draft_->set(draft_version(tiny_draft(tiny_draft_config(kVocab), 2), 2));
  read(proposer, running);  // the swap
  EXPECT_EQ(rows_of(proposer, prompt, live_draft_), kNewRows);
}

// ---- answers ----

// A chat: what one turn committed begins the prompt of the next one. Some proposals are accepted, some in part, some
// not, so that many rows are of rejected tokens.
TEST_F(DraftPrefixTest, TheNextTurnFindsTheAnswerAndNoRejectedRows) {
  auto proposer = with_prefixes();
  Drafted sequence(++last_id_, prompt_of(20, 3), live_draft_);
  sequence.ref.tenant = {1};
  proposer.begin(sequence.view());
  for (std::int32_t turn = 0; std::ssize(sequence.tokens) < 3 * kPage + 8; ++turn) {
    const Proposal proposal = propose(proposer, {&sequence}, kNodes)[0];
    VerifyResult result;
    for (std::int32_t i = 0; i < turn % (kNodes + 1); ++i) result.accepted.push_back(i);
    result.added_token = turn % kVocab;
    commit(proposer, sequence, proposal, result);
  }
  read(proposer, sequence);
  proposer.release(sequence.ref.id);
  std::vector<std::int32_t> next = sequence.tokens;
  next.resize(3 * kPage, 0);
  const auto question = prompt_of(25, 5);
  next.insert(next.end(), question.begin(), question.end());
  EXPECT_EQ(rows_of(proposer, next, live_draft_), 24) << "those of the question";
}

// The proof that a wrong row would show in the test above: here the proposer is told of other tokens than those that
// were committed, and the next request gets other proposals than a new proposer makes.
TEST_F(DraftPrefixTest, NegativePlantedRowsOfOtherTokensShow) {
  auto proposer = with_prefixes();
  Drafted sequence(++last_id_, prompt_of(28, 3), live_draft_);
  proposer.begin(sequence.view());
  const Proposal proposal = propose(proposer, {&sequence}, kNodes)[0];
  ASSERT_EQ(proposal.size(), 4U);
  proposer.on_verified(sequence.view(), {.accepted = {0, 1, 2, 3}, .added_token = 1});
  for (const std::int32_t token : proposal.tokens) sequence.tokens.push_back((token + 1) % kVocab);
  sequence.tokens.push_back(1);
  const Proposal second = propose(proposer, {&sequence}, kNodes)[0];
  commit(proposer, sequence, second, {.added_token = 2});
  read(proposer, sequence);
  proposer.release(sequence.ref.id);

  Drafted next(++last_id_, sequence.tokens, live_draft_);
  proposer.begin(next.view());
  const Proposal wrong = propose(proposer, {&next}, kNodes)[0];
  EXPECT_NE(wrong.path_logprob, fresh(next.tokens, next.ref.prompt_tokens, live_draft_, kNodes).path_logprob);
}

// Rows of a proposal that was never verified are not those of committed tokens.
TEST_F(DraftPrefixTest, AProposalThatWasNeverVerifiedLeavesNoRows) {
  auto proposer = with_prefixes();
  Drafted sequence(++last_id_, prompt_of(kPage - 2, 3), live_draft_);
  sequence.ref.tenant = {1};
  proposer.begin(sequence.view());
  propose(proposer, {&sequence}, 8);
  read(proposer, sequence);
  proposer.release(sequence.ref.id);
  EXPECT_EQ(rows_of(proposer, prompt_of(kPrompt, 3), live_draft_), kAllRows) << "no page was whole";
}

// ---- room ----

TEST_F(DraftPrefixTest, IdlePrefixesGiveWayToSequencesThatNeedTheRoom) {
  auto proposer = with_prefixes(/*n_pages=*/4);
  EXPECT_EQ(rows_of(proposer, prompt_of(60, 3), live_draft_), 59);
  EXPECT_EQ(rows_of(proposer, prompt_of(60, 3), live_draft_), 27);
  // 90 tokens and room for proposals: all four pages.
  EXPECT_EQ(rows_of(proposer, prompt_of(90, 5), live_draft_), 89);
  EXPECT_EQ(rows_of(proposer, prompt_of(60, 3), live_draft_), 59) << "it was dropped";
}

TEST_F(DraftPrefixTest, IdlePrefixesGiveWayToAnswersThatGrow) {
  auto proposer = with_prefixes(/*n_pages=*/4);
  rows_of(proposer, prompt_of(60, 3), live_draft_);
  Drafted growing(++last_id_, prompt_of(30, 5), live_draft_);
  proposer.begin(growing.view());
  read(proposer, growing);
  growing.tokens = prompt_of(90, 5);
  read(proposer, growing);
  EXPECT_EQ(proposer.ready_depth(growing.view()), kMaxProposalNodes);
  expect_same(propose(proposer, {&growing}, kNodes)[0], fresh(growing.tokens, 30, live_draft_, kNodes));
  proposer.release(growing.ref.id);
  EXPECT_EQ(rows_of(proposer, prompt_of(60, 3), live_draft_), 59) << "it was dropped";
}

// Both read the shared pages in one pass, and the second one keeps them when the first one ends.
TEST_F(DraftPrefixTest, SequencesThatRunTogetherShareAPrefix) {
  auto proposer = with_prefixes();
  const auto prompt = prompt_of(kPrompt, 3);
  Drafted first(++last_id_, prompt, live_draft_), second(++last_id_, prompt, live_draft_);
  proposer.begin(first.view());
  EXPECT_EQ(read(proposer, first), kAllRows);
  proposer.begin(second.view());
  EXPECT_EQ(read(proposer, second), kNewRows);
  const Proposal expected = fresh(prompt, kPrompt, live_draft_, kNodes);
  for (const Proposal& proposal : propose(proposer, {&first, &second}, kNodes)) expect_same(proposal, expected);
  proposer.release(first.ref.id);
  expect_same(propose(proposer, {&second}, kNodes)[0], expected);
}

// Bug: a draft began only where the pool had pages for the whole text, although a running sequence shares most of them.
TEST_F(DraftPrefixTest, SharedPagesNeedNoRoom) {
  const auto prompt = prompt_of(kPrompt, 3);  // with room for proposals 4 pages, 2 of them whole
  for (const std::int32_t n_pages : {5, 6}) {
    auto proposer = with_prefixes(n_pages);
    Drafted first(++last_id_, prompt, live_draft_), second(++last_id_, prompt, live_draft_);
    proposer.begin(first.view());
    EXPECT_EQ(read(proposer, first), kAllRows);
    proposer.begin(second.view());
    EXPECT_EQ(read(proposer, second), n_pages == 6 ? kNewRows : 0);
    EXPECT_EQ(proposer.ready_depth(second.view()), n_pages == 6 ? kMaxProposalNodes : 0);
    if (n_pages != 6) continue;
    const Proposal expected = fresh(prompt, kPrompt, live_draft_, kNodes);
    for (const Proposal& proposal : propose(proposer, {&first, &second}, kNodes)) expect_same(proposal, expected);
  }
}

}  // namespace
}  // namespace slip
