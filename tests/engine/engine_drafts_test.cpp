// SPDX-License-Identifier: Apache-2.0
// An engine whose draft models change while it answers, alone and beside prompt lookup: no bit of an answer changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "engine/scheduler/speculation_policy.h"
#include "engine/speculative/draft_model_proposer.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/tiny_draft.h"
#include "tests/engine/toy_target.h"
#include "tests/engine/wrapped_proposer.h"

namespace slip {
namespace {

using testing::Answer;
using testing::draft_version;
using testing::make_live_draft;
using testing::tiny_draft;
using testing::tiny_draft_config;
using testing::ToyLanguage;
using testing::ToyWorker;

constexpr std::int32_t kVocab = 23;

std::vector<std::int32_t> prompt_of(std::int32_t n, std::int32_t step) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < n; ++i) prompt.push_back((i * step + step) % kVocab);
  return prompt;
}

// Publishes another version every few steps.
struct Publisher final : StepListener {
  std::shared_ptr<LiveDraft> live_draft;
  std::vector<std::shared_ptr<const ModelWeights>> weights;
  int n_steps = 0, every = 0;
  void on_step(const StepFigures&) noexcept override {
    if (every == 0 || ++n_steps % every != 0) return;
    const std::uint64_t number = live_draft->get()->number + 1;
    live_draft->set(draft_version(weights[number % weights.size()], number));
    live_draft->reclaim();
  }
};

// A draft whose siblings are continued wherever there is room.
class BranchingProposer final : public testing::WrappedProposer {
 public:
  BranchingProposer(std::int32_t max_running, kernels::ThreadPool& pool)
      : WrappedProposer(std::make_unique<DraftModelProposer>(
            DraftModelOptions{.n_pages = 200, .max_running = max_running}, testing::toy_config(kVocab), pool)) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    std::vector<DraftTask> free_of_charge(tasks.begin(), tasks.end());
    std::vector<SequenceRef> refs;
    refs.reserve(tasks.size());
    for (DraftTask& task : free_of_charge) {
      task.stop = {&rates_, /*next_rate=*/1, /*row_price=*/0, /*pass_price=*/0};
      refs.push_back(*task.sequence);
      refs.back().wants_probability = true;
      task.sequence = &refs.back();
    }
    return WrappedProposer::propose(free_of_charge);
  }

 private:
  ChoiceRates rates_;
};

// Measures what is verified, by request.
class ShapeWatch final : public testing::WrappedProposer {
 public:
  using Shapes = std::map<std::uint64_t, TreeLimits>;  // the largest of each

  ShapeWatch(std::unique_ptr<Proposer> inner, Shapes& shapes) : WrappedProposer(std::move(inner)), shapes_(shapes) {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    for (const DraftTask& task : tasks) proposals_[task.sequence->id.value] = task.proposal;
    return WrappedProposer::propose(tasks);
  }
  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override {
    const Proposal& proposal = *proposals_.at(sequence.id.value);
    TreeLimits& largest = shapes_.try_emplace(sequence.id.value, TreeLimits{0, 0, 0}).first->second;
    largest.nodes = std::max(largest.nodes, static_cast<std::int32_t>(proposal.size()));
    std::vector<std::int32_t> depths;
    for (const std::int32_t parent : proposal.parents) {
      depths.push_back(parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)] + 1);
      largest.depth = std::max(largest.depth, depths.back());
      largest.width = std::max(largest.width, proposal.choices_below(parent));
    }
    WrappedProposer::on_verified(sequence, result);
  }

 private:
  Shapes& shapes_;
  std::map<std::uint64_t, const Proposal*> proposals_;  // of the step
};

struct Setting {
  std::int32_t k = 3, concurrency = 1;
  int swap_every = 0;
  std::int32_t draft_pages = 0, draft_context = 512;
  bool prompt_lookup = false;
  bool adaptive_k = false;
  std::shared_ptr<PastAnswers> past_answers = nullptr;
  const std::vector<Answer>* predictions = nullptr;  // null: none
  std::optional<ProposeBy> propose_by;
  std::optional<std::int32_t> k_of_request = {};
  std::int32_t tree_width = 1, max_tokens = 40;
  bool deadlines = false;  // every second request has targets, some of them out of reach
  bool branches = false;   // siblings are continued wherever there is room
  PolicyKind policy = PolicyKind::kGoodput;
  std::vector<TreeLimits> trees = {};    // of the requests, in turn; empty: no limits
  ShapeWatch::Shapes* shapes = nullptr;  // null: not watched
};

std::vector<Answer> answers_of(const SamplingParams& sampling, const Setting& run) {
  kernels::ThreadPool pool(1);
  Publisher publisher;
  for (const std::uint64_t seed : {1, 2}) {
    publisher.weights.push_back(tiny_draft(tiny_draft_config(kVocab, run.draft_context), seed));
  }
  publisher.live_draft = make_live_draft(publisher.weights[0]);
  publisher.every = run.swap_every;
  EngineOptions options{.k = run.k,
                        .adaptive_k = run.adaptive_k,
                        .stop_early = run.adaptive_k,
                        .tree_width = run.tree_width,
                        .prompt_lookup = run.prompt_lookup,
                        .max_running = run.concurrency,
                        .prefill_chunk = 16,
                        .catch_up_chunk = 64,
                        .draft_pages = run.draft_pages};
  options.deadlines = run.deadlines;
  options.policy = run.policy;
  auto target = std::make_unique<ToyWorker>(ToyLanguage{.spread = 2});
  std::unique_ptr<Proposer> proposer;
  if (run.branches) {
    proposer = std::make_unique<BranchingProposer>(options.max_running, pool);
  } else {
    proposer = std::make_unique<DraftModelProposer>(draft_model_options(options, *target), target->config(), pool);
  }
  if (run.shapes != nullptr) proposer = std::make_unique<ShapeWatch>(std::move(proposer), *run.shapes);
  Engine engine(options, std::move(target), nullptr, std::move(proposer), nullptr, {&publisher});
  std::vector<Answer> answers(6);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Request request = testing::full_request(i + 1, prompt_of(3 + static_cast<std::int32_t>(i) * 9, 7), answers[i]);
    request.sampling = sampling;
    request.max_tokens = run.max_tokens;
    request.draft = publisher.live_draft;
    request.past_answers = run.past_answers;
    request.propose_by = run.propose_by;
    request.k = run.k_of_request;
    if (!run.trees.empty()) request.tree = run.trees[i % run.trees.size()];
    if (run.deadlines && i % 2 == 0) request.slo = {.tpot_us = i == 0 ? 1 : 300, .ttft_us = i == 2 ? 1 : 0};
    if (run.predictions != nullptr) request.prediction = (*run.predictions)[i].tokens;
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  return answers;
}

TEST(EngineWithDrafts, SwapsInMidAnswerChangeNothing) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 3}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    for (const std::int32_t k : {1, 3, 8}) {
      for (const std::int32_t concurrency : {1, 6}) {
        const auto answers = answers_of(sampling, {.k = k, .concurrency = concurrency, .swap_every = 4});
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << k << " concurrency " << concurrency;
          EXPECT_GE(answers[i].summary.figures.swaps, 1);
          EXPECT_GT(answers[i].summary.figures.last_version, answers[i].summary.figures.first_version);
        }
      }
    }
  }
}

// A target with a small vocabulary repeats itself, and the lookup then proposes tokens that a random draft never would.
TEST(EngineWithDrafts, WhatTheTextSuggestsChangesSpeedAlone) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0, .presence_penalty = 0.4F},
        SamplingParams{.temperature = 1, .top_p = 0.8F, .seed = 3},
        SamplingParams{.temperature = 0.7F, .logit_bias = {{3, 2}, {5, -100}}, .min_tokens = 20, .seed = 4}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    for (const std::int32_t k : {1, 3, 8}) {
      for (const std::int32_t concurrency : {1, 6}) {
        const auto answers =
            answers_of(sampling, {.k = k, .concurrency = concurrency, .swap_every = 4, .prompt_lookup = true});
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << k << " concurrency " << concurrency;
        }
      }
    }
  }
}

TEST(EngineWithDrafts, ARequestSaysWhatMayPropose) {
  const SamplingParams sampling{.temperature = 1, .seed = 3};
  const auto plain = answers_of(sampling, {.k = 0});
  const auto proposed = [&](const Setting& run) {
    const auto answers = answers_of(sampling, run);
    std::int32_t n = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(answers[i].same_as(plain[i]));
      n += answers[i].summary.figures.proposed;
    }
    return n;
  };
  for (const bool adaptive_k : {false, true}) {
    Setting run{.k = 4, .concurrency = 6, .prompt_lookup = true, .adaptive_k = adaptive_k};
    run.k_of_request = 0;
    EXPECT_EQ(proposed(run), 0);
    run.k_of_request.reset();
    run.propose_by = ProposeBy::kDraft;
    EXPECT_GT(proposed(run), 50);
    run.propose_by = ProposeBy::kPromptLookup;
    EXPECT_GT(proposed(run), 0);
    run.prompt_lookup = false;
    EXPECT_EQ(proposed(run), 0) << "there is no prompt lookup";
  }
}

// From the first step on, when no time is known yet, and for a request that asks for drafts.
TEST(EngineWithDrafts, APolicyWithoutSpeculationProposesNothing) {
  const SamplingParams sampling{.temperature = 1, .seed = 3};
  const auto plain = answers_of(sampling, {.k = 0});
  for (const PolicyKind policy : {PolicyKind::kFcfs, PolicyKind::kStta}) {
    for (const bool deadlines : {false, true}) {
      Setting run{.k = 8, .concurrency = 6, .prompt_lookup = true, .adaptive_k = true};
      run.policy = policy;
      run.deadlines = deadlines;
      run.k_of_request = 4;
      const auto answers = answers_of(sampling, run);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i].same_as(plain[i])) << policy_name(policy);
        EXPECT_EQ(answers[i].summary.figures.proposed, 0) << policy_name(policy);
      }
    }
  }
}

// Which of the two is proposed hangs on the clock here.
TEST(EngineWithDrafts, ChoosingBetweenDraftAndGuessesChangesSpeedAlone) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.7F, .logit_bias = {{3, 2}}, .seed = 4}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    const auto past_answers = std::make_shared<PastAnswers>();
    for (const std::int32_t concurrency : {1, 6, 6}) {
      Setting run{.k = 8, .concurrency = concurrency, .swap_every = 4, .prompt_lookup = true, .adaptive_k = true};
      run.past_answers = past_answers;
      run.tree_width = 3;
      run.deadlines = true;
      for (const auto& [name, policy] : kPolicyNames) {
        run.policy = policy;
        const auto answers = answers_of(sampling, run);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << name << ' ' << concurrency;
        }
      }
    }
  }
}

// Long stretches of sure guesses, between which the draft falls behind and catches up.
TEST(EngineWithDrafts, PredictionsAndPastAnswersChangeSpeedAlone) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .top_p = 0.8F, .seed = 3}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    std::vector<Answer> predictions = plain;
    for (Answer& prediction : predictions) prediction.tokens[25] = (prediction.tokens[25] + 1) % kVocab;
    const auto past_answers = std::make_shared<PastAnswers>();
    for (const std::int32_t k : {1, 3, 8, 16}) {
      for (const std::int32_t concurrency : {1, 6}) {
        Setting run{.k = k, .concurrency = concurrency, .swap_every = 4, .prompt_lookup = true};
        run.past_answers = past_answers;
        run.predictions = &predictions;
        const auto answers = answers_of(sampling, run);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << k << " concurrency " << concurrency;
          if (k == 16) {
            EXPECT_LE(answers[i].summary.figures.steps, 12) << "of 40 tokens";
          }
        }
      }
    }
  }
}

std::int32_t sum_of(const std::vector<Answer>& answers, std::int32_t RequestFigures::*figure) {
  return std::accumulate(answers.begin(), answers.end(), 0,
                         [&](std::int32_t sum, const Answer& one) { return sum + one.summary.figures.*figure; });
}

TEST(EngineWithDrafts, SiblingsChangeSpeedAlone) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 3},
        SamplingParams{.temperature = 0, .presence_penalty = 0.4F},
        SamplingParams{
            .temperature = 0.7F, .top_k = 3, .logit_bias = {{3, 2}, {5, -100}}, .min_tokens = 20, .seed = 4}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    for (const std::int32_t width : {2, 4}) {
      for (const std::int32_t k : {1, 3, 8, 16}) {
        for (const bool prompt_lookup : {false, true}) {
          Setting run{.k = k, .concurrency = k == 3 ? 6 : 1, .swap_every = 4, .prompt_lookup = prompt_lookup};
          run.tree_width = width;
          const auto answers = answers_of(sampling, run);
          for (std::size_t i = 0; i < answers.size(); ++i) {
            EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << k << " width " << width;
          }
          // Of penalised greedy logits only the best one is known.
          const bool has_siblings = sampling.temperature > 0 || !sampling.processes_logits();
          EXPECT_EQ(sum_of(answers, &RequestFigures::accepted_siblings) > 0, has_siblings) << "k " << k;
        }
      }
    }
  }
}

// Each node needs a slot in the cache, and an answer has none beyond its last token.
TEST(EngineWithDrafts, TreesNearTheEndOfAnAnswerChangeNothing) {
  const SamplingParams sampling{.temperature = 0};
  for (std::int32_t max_tokens = 1; max_tokens <= 34; ++max_tokens) {
    Setting run{.k = 0, .concurrency = 6};
    run.max_tokens = max_tokens;
    const auto plain = answers_of(sampling, run);
    run.k = 8;
    run.tree_width = 4;
    for (const bool branches : {false, true}) {
      run.branches = branches;
      const auto answers = answers_of(sampling, run);
      for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_TRUE(answers[i].same_as(plain[i])) << max_tokens;
    }
  }
}

TEST(EngineWithDrafts, BranchesChangeSpeedAlone) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 3},
        SamplingParams{
            .temperature = 0.7F, .top_k = 3, .logit_bias = {{3, 2}, {5, -100}}, .min_tokens = 20, .seed = 4}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    std::int32_t steps_of_siblings = 0, steps_of_branches = 0;
    for (const std::int32_t width : {2, 4}) {
      for (const std::int32_t k : {2, 4, 8}) {
        Setting run{.k = k, .concurrency = k == 4 ? 6 : 1, .swap_every = 4};
        run.tree_width = width;
        steps_of_siblings += sum_of(answers_of(sampling, run), &RequestFigures::steps);
        run.branches = true;
        const auto answers = answers_of(sampling, run);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << k << " width " << width;
          const RequestFigures& figures = answers[i].summary.figures;
          EXPECT_EQ(figures.output_tokens, figures.steps + figures.accepted + figures.accepted_siblings);
        }
        steps_of_branches += sum_of(answers, &RequestFigures::steps);
      }
    }
    EXPECT_LT(steps_of_branches, steps_of_siblings) << "tokens after siblings were accepted";
  }
}

// A client may limit the tree of its own request, beside others in the same step.
TEST(EngineWithDrafts, EachRequestKeepsToItsTreeLimits) {
  const std::vector<TreeLimits> limits{{.nodes = 1},
                                       {.nodes = 3, .depth = 2, .width = 2},
                                       {.nodes = 5, .depth = 4, .width = 3},
                                       {.depth = 1, .width = 3},
                                       {.depth = 3, .width = 1},
                                       {}};
  const auto check = [&](const ShapeWatch::Shapes& shapes, const std::string& where) {
    ASSERT_EQ(shapes.size(), limits.size()) << where;
    for (const auto& [id, shape] : shapes) {
      EXPECT_LE(shape.nodes, limits[id - 1].nodes) << where << ", request " << id;
      EXPECT_LE(shape.depth, limits[id - 1].depth) << where << ", request " << id;
      EXPECT_LE(shape.width, limits[id - 1].width) << where << ", request " << id;
    }
  };
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 3}}) {
    const auto plain = answers_of(sampling, {.k = 0});
    for (const bool branches : {false, true}) {
      Setting run{.k = 8, .concurrency = 6};
      run.tree_width = 4;
      run.trees = limits;
      run.branches = branches;
      const auto shapes_of = [&](const std::string& where) {
        ShapeWatch::Shapes shapes;
        run.shapes = &shapes;
        const auto answers = answers_of(sampling, run);
        for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_TRUE(answers[i].same_as(plain[i])) << where;
        return shapes;
      };
      auto shapes = shapes_of("all that may be drafted");
      check(shapes, "all that may be drafted");
      EXPECT_EQ(shapes[1], (TreeLimits{1, 1, 1}));
      EXPECT_EQ(shapes[2], (TreeLimits{3, 2, 2}));
      EXPECT_EQ(shapes[3].nodes, 5);
      EXPECT_EQ(shapes[4], (TreeLimits{3, 1, 3}));
      EXPECT_EQ(shapes[5], (TreeLimits{3, 3, 1}));
      EXPECT_EQ(shapes[6].depth, 8) << "the engine's own limit";
      EXPECT_GT(shapes[6].nodes, 8);
      run.adaptive_k = true;
      for (const auto& [name, policy] : kPolicyNames) {
        run.policy = policy;
        const auto found = shapes_of(std::string(name));
        if (make_policy(policy, {})->speculates()) {
          check(found, std::string(name));
        } else {
          EXPECT_TRUE(found.empty()) << name << " proposes nothing";
        }
      }
    }
  }
}

TEST(EngineWithDrafts, GuessesKeepToTheTreeLimitsToo) {
  const SamplingParams sampling{.temperature = 0};
  const auto plain = answers_of(sampling, {.k = 0});
  for (const bool adaptive_k : {false, true}) {
    ShapeWatch::Shapes shapes;
    Setting run{.k = 8, .concurrency = 6, .prompt_lookup = true, .adaptive_k = adaptive_k};
    run.predictions = &plain;
    run.propose_by = ProposeBy::kPromptLookup;
    run.trees = {{.nodes = 2}, {.depth = 3}, {}};
    run.shapes = &shapes;
    const auto answers = answers_of(sampling, run);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(answers[i].same_as(plain[i]));
      EXPECT_LE(shapes[i + 1].nodes, std::vector<std::int32_t>({2, 3, 8})[i % 3]);
    }
    if (!adaptive_k) {
      EXPECT_EQ(shapes[1].nodes, 2);
      EXPECT_EQ(shapes[2].nodes, 3);
      EXPECT_GT(shapes[3].nodes, 3);
    }
  }
}

// α must not rise because more is proposed.
TEST(EngineWithDrafts, SiblingsAreNoFirstChoices) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1, .seed = 3}}) {
    Setting run{.k = 1};
    const auto chains = answers_of(sampling, run);
    run.tree_width = 4;
    const auto trees = answers_of(sampling, run);
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const RequestFigures &chain = chains[i].summary.figures, &tree = trees[i].summary.figures;
      EXPECT_EQ(tree.output_tokens, tree.steps + tree.accepted + tree.accepted_siblings);
      EXPECT_LE(tree.accepted_siblings, tree.first_rejections);
      EXPECT_EQ(tree.accepted_by_rank[0], tree.accepted);
      EXPECT_EQ(std::accumulate(tree.accepted_by_rank.begin() + 1, tree.accepted_by_rank.end(), 0),
                tree.accepted_siblings);
      EXPECT_LT(tree.steps, chain.steps);
      EXPECT_EQ(tree.reached_at[0], tree.accepted + tree.first_rejections);
    }
    const auto alpha = [](const std::vector<Answer>& answers) {
      const double accepted = sum_of(answers, &RequestFigures::accepted);
      return accepted / (accepted + sum_of(answers, &RequestFigures::first_rejections));
    };
    EXPECT_NEAR(alpha(trees), alpha(chains), 0.08);
  }
}

TEST(EngineWithDrafts, TooFewPagesOrTooShortAContextOnlyMeansFewerProposals) {
  const SamplingParams sampling{.temperature = 1, .seed = 3};
  const auto plain = answers_of(sampling, {.k = 0});
  const auto cramped = answers_of(sampling, {.k = 3, .concurrency = 6, .swap_every = 4, .draft_pages = 7});
  const auto short_sighted = answers_of(sampling, {.k = 3, .concurrency = 6, .draft_context = 32});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(cramped[i].same_as(plain[i]));
    EXPECT_TRUE(short_sighted[i].same_as(plain[i]));
  }
  EXPECT_GT(cramped[0].summary.figures.proposed, 0);
  EXPECT_GT(short_sighted[0].summary.figures.proposed, 0);
  EXPECT_EQ(short_sighted[5].summary.figures.proposed, 0);  // its prompt alone is longer
}

}  // namespace
}  // namespace slip
