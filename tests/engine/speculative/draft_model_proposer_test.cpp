// SPDX-License-Identifier: Apache-2.0
// What a draft proposes: chains, siblings, early stops and sure guesses.
#include <algorithm>
#include <numeric>

#include "engine/speculative/token_path.h"
#include "tests/engine/speculative/draft_model_proposer_fixture.h"

namespace slip {
namespace {

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

// The distribution after `path` by a draft of its own, which proposes one token by sampling.
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

TEST_F(DraftModelProposerTest, SampledSiblingsComeFromWhatEarlierSiblingsLeave) {
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
    const Proposal tree = propose(proposer, {&sequence}, 1, 2)[0];
    best = tree.tokens;
    if (prompt_lookup) {
      EXPECT_EQ(best[0], 20);
      EXPECT_EQ(tree.proposed_by, (std::vector<ProposedBy>{ProposedBy::kPromptLookup, ProposedBy::kDraft}));
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
    commit(proposer, sequence, tree, result);
    EXPECT_EQ(propose(proposer, {&sequence}, 3, 2)[0].tokens, fresh(sequence.tokens, 9, live_draft, 3, 2).tokens)
        << round;
  }
}

// ---- early stops ----

// Proposes with this rule; `proposer` has caught up. `n_passes` gets what propose() returns.
std::vector<Proposal> propose_until(DraftModelProposer& proposer, const std::vector<Drafted*>& sequences,
                                    const StopRule& stop, std::int32_t most = 6, std::int32_t width = 1,
                                    std::int32_t* n_passes = nullptr) {
  std::vector<SequenceRef> refs;
  for (Drafted* sequence : sequences) {
    refs.push_back(sequence->view());
    refs.back().wants_probability = true;
  }
  const std::vector<std::int32_t> nodes(refs.size(), most);
  std::vector<Proposal> proposals(refs.size());
  auto tasks = draft_tasks(refs, nodes, proposals, width);
  for (DraftTask& task : tasks) task.stop = stop;
  proposer.catch_up(tasks, {16, 16});
  const std::int64_t before = proposer.n_passes();
  const std::int32_t n = proposer.propose(tasks);
  EXPECT_EQ(n, proposer.n_passes() - before);
  if (n_passes != nullptr) *n_passes = n;
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
      std::int32_t n_passes = 0;
      std::vector<std::int64_t> found;
      for (const Proposal& proposal : propose_until(proposer, {&first, &second}, stop, 6, 1, &n_passes)) {
        found.push_back(proposal.chain_length());
      }
      EXPECT_EQ(n_passes, std::max(found[0], found[1])) << "no pass is wasted";
      return found;
    };
    using Lengths = std::vector<std::int64_t>;
    EXPECT_EQ(lengths({}), (Lengths{6, 6})) << "without a rule";
    EXPECT_EQ(lengths({&rates, 1, 0, 0}), (Lengths{6, 6})) << "what costs nothing is always worth it";
    EXPECT_EQ(lengths({&rates, 1, 0.99, 0}), (Lengths{1, 1})) << "the first token was planned";
    EXPECT_EQ(lengths({&rates, 1, 0, 2.0}), (Lengths{1, 1})) << "two chains can add two tokens a pass at most";
    EXPECT_EQ(lengths({&rates, 0, 0.01, 0}), (Lengths{1, 1})) << "nothing is accepted after a first token";
    const Lengths some = lengths({&rates, 1, 0.002, 0});
    EXPECT_GT(some[0] + some[1], 2);
    EXPECT_LT(some[0] + some[1], 12);
  }
}

// ---- branches ----

// Each token after a sibling is what a draft of its own would propose after that path.
TEST_F(DraftModelProposerTest, BranchesAreWhatTheDraftSaysBehindTheirPath) {
  const ChoiceRates rates;
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  const std::vector<std::int32_t> texts[] = {prompt_of(9, 5), prompt_of(41, 3)};
  for (const float temperature : {0.0F, 1.0F}) {
    auto proposer = make();
    Drafted one(1, texts[0], live_draft), other(2, texts[1], live_draft);
    for (Drafted* sequence : {&one, &other}) {
      sequence->sampling.temperature = temperature;
      proposer.begin(sequence->view());
    }
    propose(proposer, {&one, &other}, 1);
    std::int32_t n_passes = 0;
    const auto trees = propose_until(proposer, {&one, &other}, {&rates, 1, 0, 0}, /*nodes=*/4, /*width=*/3, &n_passes);
    EXPECT_GT(n_passes, 5) << "four for the chains, and some for the branches";
    for (const std::size_t at : {0, 1}) {
      const Proposal& tree = trees[at];
      ASSERT_EQ(tree.size(), static_cast<std::size_t>(kMaxProposalNodes));
      EXPECT_EQ(tree.chain_length(), 4);
      int n_behind_siblings = 0;
      for (std::int32_t node = 0; node < kMaxProposalNodes; ++node) {
        const std::int32_t parent = tree.parents[static_cast<std::size_t>(node)];
        std::vector<std::int32_t> path;
        write_token_path(texts[at], tree, parent, path);
        ASSERT_LT(path.size() - texts[at].size(), 4U) << "no deeper than was planned";
        RandomAddress address = (at == 0 ? one : other).view().next_address();
        address.output_index += static_cast<std::uint32_t>(path.size() - texts[at].size());
        const auto expected = choices(q_behind(pool_, path, live_draft), address, temperature == 0, 3);
        EXPECT_EQ(tree.tokens[static_cast<std::size_t>(node)], expected[static_cast<std::size_t>(tree.rank_of(node))])
            << "node " << node << " at temperature " << temperature;
        n_behind_siblings += parent >= 4 ? 1 : 0;
      }
      EXPECT_GT(n_behind_siblings, 2);
    }
  }
}

// Whether a sampled node is proposed must not depend on its own draw, so sampled siblings have nothing after them by
// rates that look at it.
TEST_F(DraftModelProposerTest, BranchesGrowOnlyWhereTheyPayAndMay) {
  const ChoiceRates rates;
  auto proposer = make();
  Drafted sequence(1, prompt_of(9, 5), make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
  proposer.begin(sequence.view());
  propose(proposer, {&sequence}, 1);
  const auto n_branches = [&](const StopRule& stop, std::int32_t width) {
    std::int32_t n_passes = 0;
    const Proposal tree = propose_until(proposer, {&sequence}, stop, 4, width, &n_passes)[0];
    const auto n = std::count_if(tree.parents.begin(), tree.parents.end(),
                                 [&](std::int32_t parent) { return parent >= tree.chain_length(); });
    EXPECT_EQ(n_passes > tree.chain_length(), n > 0);
    return n;
  };
  EXPECT_GT(n_branches({&rates, 1, 0, 0}, 2), 0);
  EXPECT_EQ(n_branches({&rates, 1, 0, 0}, 1), 0) << "a chain";
  EXPECT_EQ(n_branches({&rates, 1, 0, 9.0}, 2), 0) << "a pass costs more than it can bring";
  EXPECT_EQ(n_branches({&rates, 1, 0.9, 0}, 2), 0) << "no row is worth it";
  sequence.ref.rule = AcceptanceRule::kRejection;
  EXPECT_EQ(n_branches({&rates, 1, 0, 0}, 2), 0) << "sampled";
}

// ---- branches of sampled proposals ----

// A tree of the sequence by rates of ranks alone.
Proposal sampled_tree(DraftModelProposer& proposer, Drafted& sequence, std::uint64_t seed, std::int32_t nodes) {
  const ChoiceRates rates(RankRates{0.5, 0.5, 0.4, 0.3});
  sequence.ref.rule = AcceptanceRule::kRejection;
  sequence.sampling.seed = seed;
  proposer.begin(sequence.view());
  propose(proposer, {&sequence}, 1);
  return propose_until(proposer, {&sequence}, {&rates, 0.5, 0, 0}, nodes, /*width=*/3)[0];
}

// What the chain's and the siblings' children would be proposed from, each by a draft of its own.
TEST_F(DraftModelProposerTest, SampledSiblingsAreContinuedByRatesOfRanks) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  std::vector<std::int32_t> parents;
  for (const std::uint64_t seed : {1, 2, 3}) {
    auto proposer = make();
    Drafted sequence(1, prompt_of(9, 5), live_draft);
    const Proposal tree = sampled_tree(proposer, sequence, seed, /*nodes=*/3);
    ASSERT_EQ(tree.size(), static_cast<std::size_t>(kMaxProposalNodes));
    ASSERT_EQ(tree.q.size(), tree.size());
    if (parents.empty()) parents = tree.parents;
    EXPECT_EQ(tree.parents, parents) << "no drawn token changes the shape";
    for (std::int32_t node = 0; node < kMaxProposalNodes; ++node) {
      const auto at = static_cast<std::size_t>(node);
      std::vector<std::int32_t> path;
      write_token_path(sequence.tokens, tree, tree.parents[at], path);
      Distribution q = q_behind(pool_, path, live_draft);
      for (std::size_t earlier = 0; earlier < at; ++earlier) {
        if (tree.parents[earlier] == tree.parents[at]) remove_id(tree.tokens[earlier], q);
      }
      EXPECT_EQ(tree.q[at].ids, q.ids) << "node " << node << ", seed " << seed;
      EXPECT_EQ(tree.q[at].probabilities, q.probabilities) << "node " << node << ", seed " << seed;
      EXPECT_GT(q.probability(tree.tokens[at]), 0);
    }
  }
  EXPECT_GT(std::count_if(parents.begin(), parents.end(), [](std::int32_t parent) { return parent >= 3; }), 2)
      << "some follow siblings";
}

// The part of [0, 1) that inverse CDF maps to a node's token.
std::pair<double, double> interval_of(const Proposal& tree, std::size_t node) {
  const Distribution& q = tree.q[node];
  const auto at = std::lower_bound(q.ids.begin(), q.ids.end(), tree.tokens[node]) - q.ids.begin();
  const double begin = std::accumulate(q.probabilities.begin(), q.probabilities.begin() + at, 0.0);
  return {begin, begin + q.probabilities[static_cast<std::size_t>(at)]};
}

// With one number for all places of a depth, first choices there would be drawn by the same u.
TEST_F(DraftModelProposerTest, PlacesOfOneDepthDrawByTheirOwnNumbers) {
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  std::vector<int> n_apart(3);  // of the children of the first token and of its two siblings, by pair
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    auto proposer = make();
    Drafted sequence(1, prompt_of(9, 5), live_draft);
    const Proposal tree = sampled_tree(proposer, sequence, seed, /*nodes=*/2);
    std::vector<std::pair<double, double>> drawn_from;
    for (std::int32_t node = 0; node < std::ssize(tree.tokens); ++node) {
      if (tree.parents[static_cast<std::size_t>(node)] >= 0) continue;
      const std::size_t child = tree.first_below(node);
      ASSERT_LT(child, tree.size());
      drawn_from.push_back(interval_of(tree, child));
    }
    ASSERT_EQ(drawn_from.size(), 3U);
    for (std::size_t pair = 0; pair < 3; ++pair) {
      const auto [begin, end] = drawn_from[pair];
      const auto [other_begin, other_end] = drawn_from[(pair + 1) % 3];
      n_apart[pair] += begin >= other_end || other_begin >= end ? 1 : 0;
    }
  }
  for (const int n : n_apart) EXPECT_GT(n, 3);
}

// The greatest price of a pass for which siblings are read.
double most_for_branches(DraftModelProposer& proposer, const std::vector<Drafted*>& sequences) {
  const ChoiceRates rates;
  double most = 0;
  for (double price = 0; price < 2; price += 0.01) {
    std::int32_t n_passes = 0, longest = 0;
    for (const Proposal& tree : propose_until(proposer, sequences, {&rates, 1, 0, price}, 4, 3, &n_passes)) {
      longest = std::max(longest, tree.chain_length());
    }
    if (n_passes > longest) most = price;
  }
  return most;
}

// The rows of eight equal sequences are worth more than eight rows of one, of which each next one is worth less.
TEST_F(DraftModelProposerTest, ABranchPassReadsTheBestRowsOfAllSequences) {
  auto proposer = make();
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  std::vector<std::unique_ptr<Drafted>> sequences;
  std::vector<Drafted*> all;
  for (std::uint64_t id = 1; id <= 8; ++id) {
    all.push_back(sequences.emplace_back(std::make_unique<Drafted>(id, prompt_of(9, 5), live_draft)).get());
    all.back()->sampling.temperature = 0;
    proposer.begin(all.back()->view());
  }
  propose(proposer, all, 1);
  const double of_one = most_for_branches(proposer, {all[0]});
  EXPECT_GT(of_one, 0);
  EXPECT_GT(most_for_branches(proposer, all), 1.3 * of_one);
}

// Rows of branches leave nothing behind in the draft's cache, whatever of them is accepted.
TEST_F(DraftModelProposerTest, AfterAnAcceptedBranchItProposesWhatANewOneWould) {
  const ChoiceRates rates;
  const auto live_draft = make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1));
  auto proposer = make();
  Drafted sequence(1, prompt_of(9, 5), live_draft);
  proposer.begin(sequence.view());
  propose(proposer, {&sequence}, 1);
  for (int round = 0; round < 12; ++round) {
    const Proposal tree = propose_until(proposer, {&sequence}, {&rates, 1, 0, 0}, 4, 3)[0];
    VerifyResult result{.added_token = round};
    std::int32_t leaf = kMaxProposalNodes - 1 - round % 4;
    for (; leaf >= 0; leaf = tree.parents[static_cast<std::size_t>(leaf)]) result.accepted.push_back(leaf);
    std::reverse(result.accepted.begin(), result.accepted.end());
    commit(proposer, sequence, tree, result);
    EXPECT_EQ(propose(proposer, {&sequence}, 3, 2)[0].tokens, fresh(sequence.tokens, 9, live_draft, 3, 2).tokens)
        << round;
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
      EXPECT_EQ(made.proposed_by, std::vector<ProposedBy>(7, ProposedBy::kPromptLookup));
      EXPECT_EQ(made.q.size(), temperature == 0 ? 0U : 7U);
    }
  }
}

// What a pass costs is learned from the number of passes, not from the length of proposals.
TEST_F(DraftModelProposerTest, OnlyPassesOfTheDraftCountAsPasses) {
  DraftModelProposer proposer({.n_pages = 200, .max_running = 8, .prompt_lookup = true}, testing::toy_config(kVocab),
                              pool_);
  Drafted sure(1, sure_text(), make_live_draft(tiny_draft(tiny_draft_config(kVocab), 1)));
  Drafted other(2, prompt_of(9, 7), sure.live_draft);
  for (Drafted* sequence : {&sure, &other}) {
    sequence->ref.prompt_tokens = 6;
    sequence->sampling.temperature = 0;
    proposer.begin(sequence->view());
    propose(proposer, {sequence}, 1);
  }
  const std::vector<SequenceRef> refs{sure.view(), other.view()};
  std::vector<Proposal> proposals(2);
  const auto tasks = draft_tasks(refs, {7, 2}, proposals);
  proposer.catch_up(tasks, {16, 16});
  EXPECT_EQ(proposer.propose(tasks), 2);
  EXPECT_EQ(proposals[0].chain_length(), 7);
  EXPECT_EQ(proposals[1].chain_length(), 2);
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
  EXPECT_EQ(proposals[0].proposed_by, std::vector<ProposedBy>(5, ProposedBy::kPromptLookup));
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
  std::vector<ProposedBy> proposed_by(5, ProposedBy::kPromptLookup);
  proposed_by[3] = proposed_by[4] = ProposedBy::kDraft;
  EXPECT_EQ(proposal.proposed_by, proposed_by);
}

}  // namespace
}  // namespace slip
