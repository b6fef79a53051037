// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/lookup_proposer.h"

#include <gtest/gtest.h>

#include "engine/speculative/proposer_list.h"
#include "tests/engine/answer_distribution.h"
#include "tests/engine/draft_tasks.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/goodness_of_fit.h"

namespace slip {
namespace {

using Tokens = std::vector<std::int32_t>;
using testing::Answer;
using testing::ToyLanguage;

SequenceRef sequence_of(const Tokens& tokens, std::uint64_t id = 1) {
  SequenceRef sequence;
  sequence.id = {id};
  sequence.tokens = tokens;
  sequence.prompt_tokens = static_cast<std::int32_t>(tokens.size());
  return sequence;
}

Proposal proposal_of(Proposer& proposer, const SequenceRef& sequence, std::int32_t nodes) {
  std::vector<Proposal> proposals(1);
  proposer.propose(testing::draft_tasks(std::span(&sequence, 1), {nodes}, proposals));
  return proposals[0];
}

TEST(LookupProposer, ProposesTheChainThatFollowedTheSameTokens) {
  LookupProposer proposer;
  const Tokens tokens{1, 2, 3, 4, 5, 6, 9, 1, 2, 3};
  const SequenceRef sequence = sequence_of(tokens);
  EXPECT_TRUE(proposer.drafts_for(sequence));  // without a draft
  proposer.begin(sequence);
  EXPECT_EQ(proposer.guesses(sequence).tokens.size(), std::size_t{kMaxProposalNodes});  // the text goes round
  EXPECT_EQ(proposer.ready_depth(sequence), 0) << "it runs no model";
  const Proposal proposal = proposal_of(proposer, sequence, 5);
  EXPECT_EQ(proposal.tokens, (Tokens{4, 5, 6, 9, 1}));
  EXPECT_EQ(proposal.parents, (Tokens{-1, 0, 1, 2, 3}));
  EXPECT_EQ(proposal.draw_method, DrawMethod::kDeterministic);
  EXPECT_EQ(proposal.version, 0U);
}

TEST(LookupProposer, FollowsTheAnswerAsItGrows) {
  LookupProposer proposer;
  Tokens tokens{1, 2, 3, 4};
  SequenceRef sequence = sequence_of(tokens);
  proposer.begin(sequence);
  EXPECT_TRUE(proposer.guesses(sequence).tokens.empty());
  EXPECT_EQ(proposal_of(proposer, sequence, 3).size(), 0U);
  for (const std::int32_t token : {7, 1, 2}) tokens.push_back(token);
  sequence.tokens = tokens;
  EXPECT_EQ(proposal_of(proposer, sequence, 3).tokens, (Tokens{3, 4, 7}));
}

TEST(LookupProposer, KeepsSequencesApartAndForgetsReleasedOnes) {
  LookupProposer proposer;
  const Tokens one{1, 2, 3, 1, 2}, other{1, 2, 8, 1, 2};
  const SequenceRef first = sequence_of(one, 1), second = sequence_of(other, 2);
  proposer.begin(first);
  proposer.begin(second);
  EXPECT_EQ(proposal_of(proposer, first, 1).tokens, Tokens{3});
  EXPECT_EQ(proposal_of(proposer, second, 1).tokens, Tokens{8});
  proposer.release(first.id);
  EXPECT_TRUE(proposer.guesses(first).tokens.empty());
  EXPECT_EQ(proposal_of(proposer, first, 1).size(), 0U);
}

// ---- in an engine ----

struct Proposed {
  std::int64_t n = 0, n_accepted = 0;
};

std::vector<Answer> answers_of(const SamplingParams& sampling, std::int32_t k, Proposed& proposed,
                               const std::vector<Answer>& predictions = {},
                               const std::shared_ptr<PastAnswers>& past_answers = nullptr) {
  const ToyLanguage language{.vocab_size = 4, .seed = 11};  // few tokens, so that n-grams return
  EngineOptions options;
  options.k = k;
  options.max_running = 3;
  Engine engine(options, std::make_unique<testing::ToyWorker>(language), nullptr, std::make_unique<LookupProposer>(),
                nullptr, {});
  std::vector<Answer> answers(6);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Tokens prompt;
    for (std::size_t j = 0; j < 3 + 5 * i; ++j) prompt.push_back(static_cast<std::int32_t>((i + j * j) % 4));
    Request request = testing::full_request(i + 1, prompt, answers[i]);
    request.sampling = sampling;
    request.max_tokens = 40;
    if (!predictions.empty()) request.prediction = predictions[i].tokens;
    request.past_answers = past_answers;
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  proposed = {};
  for (const Answer& answer : answers) {
    proposed.n += answer.summary.figures.proposed;
    proposed.n_accepted += answer.summary.figures.accepted;
  }
  return answers;
}

TEST(LookupProposer, ChangesNoBitOfAnAnswer) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.8F, .seed = 5},
        SamplingParams{.temperature = 1, .repetition_penalty = 1.2F, .min_tokens = 7, .seed = 6}}) {
    Proposed proposed;
    const auto plain = answers_of(sampling, 0, proposed);
    EXPECT_EQ(proposed.n, 0);
    for (const std::int32_t k : {1, 4, 16}) {
      const auto answers = answers_of(sampling, k, proposed);
      EXPECT_GT(proposed.n, 100) << k;
      for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(answers[i].same_as(plain[i])) << i << " at k " << k;
    }
  }
}

// A prediction that comes true is accepted to the last token, except the one that each step adds itself.
TEST(LookupProposer, APredictionMakesProposalsRightAndChangesNoBit) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 5}}) {
    Proposed proposed;
    const auto plain = answers_of(sampling, 0, proposed);
    auto predictions = plain;
    EXPECT_TRUE(std::equal(plain.begin(), plain.end(), answers_of(sampling, 4, proposed, predictions).begin(),
                           [](const Answer& a, const Answer& b) { return a.same_as(b); }));
    EXPECT_EQ(proposed.n_accepted, 6 * 31);  // the first of 40 tokens comes with the prompt, then 4 + 1 a step
    for (Answer& prediction : predictions) prediction.tokens[20] = (prediction.tokens[20] + 1) % 4;  // one wrong token
    EXPECT_TRUE(std::equal(plain.begin(), plain.end(), answers_of(sampling, 4, proposed, predictions).begin(),
                           [](const Answer& a, const Answer& b) { return a.same_as(b); }));
    EXPECT_GE(proposed.n_accepted, 6 * 29);
  }
}

TEST(LookupProposer, PastAnswersMakeProposalsRightAndChangeNoBit) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 5}}) {
    Proposed proposed;
    const auto plain = answers_of(sampling, 0, proposed);
    const auto past_answers = std::make_shared<PastAnswers>();
    std::int64_t first_time = 0;
    for (int round = 0; round < 3; ++round) {
      const auto answers = answers_of(sampling, 4, proposed, {}, past_answers);
      for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(answers[i].same_as(plain[i])) << i;
      if (round == 0) first_time = proposed.n_accepted;
    }
    EXPECT_GT(proposed.n_accepted, first_time + 20) << "the same answers came before";
  }
}

// Only whole answers of requests that allow learning are kept.
TEST(LookupProposer, TheEngineKeepsAnswersThatMayBeLearnedFrom) {
  const ToyLanguage language{.vocab_size = 40, .seed = 11};
  const auto guess_after = [&](bool learn, bool cancel) {
    Engine engine({}, std::make_unique<testing::ToyWorker>(language), nullptr, std::make_unique<LookupProposer>(),
                  nullptr, {});
    const auto past_answers = std::make_shared<PastAnswers>();
    Answer answer;
    Request request = testing::full_request(1, {3, 4, 5}, answer);
    request.max_tokens = 12;
    request.learn = learn;
    request.past_answers = past_answers;
    engine.submit(std::move(request));
    for (int step = 0; cancel && step < 5; ++step) engine.step();
    if (cancel) engine.cancel({1});
    EXPECT_TRUE(testing::drain(engine));
    return past_answers->longest(std::span(answer.tokens).first(3), {}).token == answer.tokens[3];
  };
  EXPECT_TRUE(guess_after(/*learn=*/true, /*cancel=*/false));
  EXPECT_FALSE(guess_after(/*learn=*/false, /*cancel=*/false));
  EXPECT_FALSE(guess_after(/*learn=*/true, /*cancel=*/true));
}

TEST(LookupProposer, AnswersWithoutASeedFollowTheTargetsDistribution) {
  const SamplingParams sampling{.temperature = 0.9F};
  for (const auto& past_answers : {std::shared_ptr<PastAnswers>(), std::make_shared<PastAnswers>()}) {
    const auto counts =
        testing::count_answers(sampling, std::make_unique<LookupProposer>(), {.past_answers = past_answers});
    EXPECT_GT(testing::chi_square_p_value(counts, testing::answer_distribution(sampling)), testing::kSignificance);
  }
}

// ---- several proposers ----

TEST(ProposerList, GivesASequenceToTheFirstProposerThatDraftsForIt) {
  const ToyLanguage language;
  auto with_draft = std::make_unique<testing::ToyProposer>(language, testing::ToyProposer::Options{.deepest = 2});
  auto without = std::make_unique<testing::ToyProposer>(
      language, testing::ToyProposer::Options{.deepest = 5, .needs_draft = false});
  testing::ToyProposer &first = *with_draft, &second = *without;
  std::vector<std::unique_ptr<Proposer>> proposers;
  proposers.push_back(std::move(with_draft));
  proposers.push_back(std::move(without));
  ProposerList list(std::move(proposers));
  const Tokens tokens{1, 2, 3};
  const SamplingParams greedy{.temperature = 0};
  const auto live_draft = testing::empty_live_draft();
  std::vector<SequenceRef> sequences{sequence_of(tokens, 1), sequence_of(tokens, 2)};
  for (SequenceRef& sequence : sequences) sequence.sampling = &greedy;
  sequences[0].live_draft = live_draft.get();
  for (const SequenceRef& sequence : sequences) {
    EXPECT_TRUE(list.drafts_for(sequence));
    list.begin(sequence);
  }
  EXPECT_EQ(list.ready_depth(sequences[0]), 2);
  EXPECT_EQ(list.ready_depth(sequences[1]), 5);
  std::vector<Proposal> proposals(2);
  list.propose(testing::draft_tasks(sequences, {2, 3}, proposals));
  EXPECT_EQ(proposals[0].size(), 2U);
  EXPECT_EQ(proposals[1].size(), 3U);
  list.release({1});
  list.release({1});  // unknown by now
  EXPECT_TRUE(first.begun.empty());
  EXPECT_EQ(second.begun.size(), 1U);
  EXPECT_EQ(list.ready_depth(sequences[0]), 0);
}

}  // namespace
}  // namespace slip
