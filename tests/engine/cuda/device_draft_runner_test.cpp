// SPDX-License-Identifier: Apache-2.0
// Drafting on a device, emulated by running the kernels' bodies on the host, as the engine sees it: through a
// DraftModelProposer.
#include "engine/cuda/device_draft_runner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/grammar/answer_grammar.h"
#include "tests/engine/cuda/runner_proposals.h"
#include "tests/engine/draft_tasks.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using testing::Answer;
using testing::different_sequences;
using testing::draft_of;
using testing::draft_tasks;
using testing::DraftByLogits;
using testing::DraftedSequence;
using testing::expected_proposals;
using testing::kRunnerVocab;
using testing::packed_version;
using testing::propose;
using testing::RunnerDevice;

TEST(DeviceDraftRunner, ProposesWhatPassesOneByOneDo) {
  const auto weights = draft_of(1);
  const auto live_draft = testing::packed_live_draft(weights);
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto sequences = different_sequences(live_draft);
  for (const auto& sequence : sequences) proposer.begin(sequence->view());
  const auto got = propose(proposer, sequences, 4), expected = expected_proposals(*weights, live_draft, 4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(got[i].parents, expected[i].parents) << i;
    EXPECT_EQ(got[i].draw_method, expected[i].draw_method) << i;
    ASSERT_EQ(got[i].q.size(), expected[i].q.size()) << i;
    for (std::size_t node = 0; node < got[i].size(); ++node) {
      EXPECT_NEAR(got[i].path_logprob[node], expected[i].path_logprob[node], 1e-4) << i;
      if (!got[i].q.empty()) {
        EXPECT_EQ(got[i].q[node].ids, expected[i].q[node].ids);
      }
    }
  }
  EXPECT_EQ(device.n_runners, 1);
}

// After any verification the cache holds exactly the committed tokens.
TEST(DeviceDraftRunner, WhatItReadBeforeNeverShows) {
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  RunnerDevice device;
  auto proposer = device.proposer();
  std::vector<std::unique_ptr<DraftedSequence>> sequences;
  const SamplingParams sampling{.temperature = 1, .seed = 11};
  sequences.push_back(std::make_unique<DraftedSequence>(1, 20, live_draft, sampling, AcceptanceRule::kCoupled));
  proposer.begin(sequences[0]->view());
  for (std::int32_t turn = 0; turn < 6; ++turn) {
    const Proposal proposal = propose(proposer, sequences, 4)[0];
    RunnerDevice other;
    auto fresh = other.proposer();
    fresh.begin(sequences[0]->view());
    ASSERT_EQ(proposal.tokens, propose(fresh, sequences, 4)[0].tokens) << "turn " << turn;
    VerifyResult result;
    for (std::int32_t i = 0; i < turn % 5; ++i) result.accepted.push_back(i);
    result.added_token = turn;
    proposer.on_verified(sequences[0]->view(), result);
    for (const std::int32_t node : result.accepted) {
      sequences[0]->tokens.push_back(proposal.tokens[static_cast<std::size_t>(node)]);
    }
    sequences[0]->tokens.push_back(result.added_token);
  }
}

TEST(DeviceDraftRunner, ASwapCatchesUpAndNeedsNoNewGraphs) {
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto sequences = different_sequences(live_draft);
  for (const auto& sequence : sequences) proposer.begin(sequence->view());
  propose(proposer, sequences, 4);
  const int n_captures = device.queue->n_captures();
  const auto newer = draft_of(2);
  live_draft->set(packed_version(newer, 2));
  const auto got = propose(proposer, sequences, 4), expected = expected_proposals(*newer, live_draft, 4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].version, 2U);
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
  }
  EXPECT_EQ(device.queue->n_captures(), n_captures);
}

// A new version's weights are removed except for their shape: the engine thread reads only the image.
TEST(DeviceDraftRunner, ASwapReadsNothingButTheImage) {
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto sequences = different_sequences(live_draft);
  for (const auto& sequence : sequences) proposer.begin(sequence->view());
  propose(proposer, sequences, 4);
  const auto newer = packed_version(draft_of(2), 2);
  const auto expected_live_draft = testing::packed_live_draft(newer->weights);
  const auto expected = expected_proposals(*newer->weights, expected_live_draft, 4);
  auto shape = std::make_shared<ModelWeights>();
  shape->config = newer->weights->config;
  shape->embedding.resize(1);  // as much as tells that the head is another matrix
  auto bare = std::make_shared<DraftVersion>(*newer);
  bare->weights = shape;
  live_draft->set(bare);
  const auto got = propose(proposer, sequences, 4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].version, 2U);
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
  }
}

// Five sequences with a common prompt list 21 pages of a cache of 18 in one pass. A draft on a device once read each
// prompt in full, since a step had no room for such lists.
TEST(DeviceDraftRunner, ACommonPromptIsReadOnce) {
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  std::vector<std::unique_ptr<DraftedSequence>> sequences;
  std::vector<SequenceRef> refs;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    sequences.push_back(std::make_unique<DraftedSequence>(
        id, id == 1 ? 140 : 120, live_draft, SamplingParams{.temperature = 1, .seed = id}, AcceptanceRule::kCoupled));
    auto& tokens = sequences.back()->tokens;
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i) % kRunnerVocab;
    refs.push_back(sequences.back()->view());
  }
  const auto read = [](DraftModelProposer& proposer, std::span<const SequenceRef> some) {
    for (const SequenceRef& ref : some) proposer.begin(ref);
    for (int i = 0; i < 20; ++i) proposer.catch_up(draft_tasks(some), {40, 40});
  };
  RunnerDevice sharing, other;
  DraftModelProposer proposer(
      {.n_pages = 18, .max_running = 5, .prompt_chunk = 40, .catch_up_chunk = 40, .prefix_cache = 0.5},
      testing::tiny_draft_config(kRunnerVocab), sharing.make_runner());
  read(proposer, std::span(refs).first(1));
  const std::int64_t n_passes = proposer.n_passes();
  read(proposer, std::span(refs).subspan(1));
  EXPECT_EQ(proposer.n_passes(), n_passes) << "whole pages are shared, the slots of a partial one are copied";
  for (const SequenceRef& ref : refs) ASSERT_GT(proposer.ready_depth(ref), 0);
  auto apart = other.proposer();
  read(apart, refs);
  const auto got = propose(proposer, sequences, 4), expected = propose(apart, sequences, 4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_GE(got[i].size(), 3U);
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
  }
}

// One copy brings a version to its weight slot, from the very bytes that it came with.
TEST(DeviceDraftRunner, ASwapIsOneCopy) {
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto sequences = different_sequences(live_draft);
  proposer.begin(sequences[0]->view());
  const auto newer = packed_version(draft_of(2), 2);
  live_draft->set(newer);
  const int n_copies = device.queue->n_copies_in();
  proposer.begin(sequences[1]->view());
  EXPECT_EQ(device.queue->n_copies_in(), n_copies + 1);
  EXPECT_EQ(device.queue->copied_in_last().data(), newer->image->bytes().data());
  EXPECT_EQ(device.queue->copied_in_last().size(), newer->image->bytes().size());
  proposer.begin(sequences[2]->view());
  EXPECT_EQ(device.queue->n_copies_in(), n_copies + 1) << "it is there";
}

// If the device verifies, q stays on the device: with two versions at once, with and without logits processors.
TEST(DeviceDraftRunner, DistributionsThatStayOnTheDeviceAreThoseThatCross) {
  const auto propose_on_two = [](DraftModelProposer& proposer, bool verified_on_device) {
    const auto live_draft = testing::packed_live_draft(draft_of(1));
    std::vector<std::unique_ptr<DraftedSequence>> sequences;
    std::vector<SequenceRef> refs;
    for (std::uint64_t id = 1; id <= 5; ++id) {
      const SamplingParams sampling{.temperature = 0.9F, .presence_penalty = id == 5 ? 1.0F : 0, .seed = id};
      sequences.push_back(std::make_unique<DraftedSequence>(id, 4, live_draft, sampling, AcceptanceRule::kRejection));
      sequences.back()->ref.verified_on_device = verified_on_device;
      refs.push_back(sequences.back()->view());
      proposer.begin(refs.back());
      if (id == 1) live_draft->set(packed_version(draft_of(2), 2));  // that of the others
    }
    std::vector<Proposal> proposals(refs.size());
    proposer.propose(draft_tasks(refs, {3, 2, 3, 1, 2}, proposals));
    EXPECT_EQ(proposals[0].version, 1U);
    EXPECT_EQ(proposals[1].version, 2U);
    return proposals;
  };
  RunnerDevice here, there;
  auto proposer_here = here.proposer(), proposer_there = there.proposer();  // whose memory the distributions are in
  const auto crossed = propose_on_two(proposer_here, false), stayed = propose_on_two(proposer_there, true);
  EXPECT_EQ(here.queue->bytes_out() - there.queue->bytes_out(), 11 * kRunnerVocab * sizeof(float));
  for (std::size_t i = 0; i < 5; ++i) {
    const Proposal &expected = crossed[i], &got = stayed[i];
    EXPECT_EQ(got.tokens, expected.tokens) << i;
    EXPECT_EQ(got.device_q.size(), got.size());
    EXPECT_TRUE(got.q.empty());
    ASSERT_EQ(expected.q.size(), expected.size());
    for (std::size_t node = 0; node < got.device_q.size(); ++node) {
      const kernels::cuda::LogitRow row{got.device_q[node].logits, kRunnerVocab};
      for (std::int32_t id = 0; id < kRunnerVocab; ++id) {
        ASSERT_EQ(kernels::cuda::probability(row, *got.device_q[node].distribution, id),
                  expected.q[node].probability(id));
      }
    }
  }
}

// For every request without a grammar, only tokens and a few numbers per distribution are copied to the host.
TEST(DeviceDraftRunner, NoRowOfLogitsCrossesButAGrammars) {
  constexpr std::size_t kOne = sizeof(std::int32_t) + sizeof(float) + sizeof(kernels::cuda::RowDistribution);
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  RunnerDevice device;
  auto proposer = device.proposer();
  auto sequences = different_sequences(live_draft);
  std::vector<SequenceRef> refs;
  for (const auto& sequence : sequences) {
    sequence->ref.verified_on_device = true;
    refs.push_back(sequence->view());
    proposer.begin(refs.back());
  }
  const std::vector<std::int32_t> nodes(refs.size(), 3);
  const auto bytes_out = [&] {
    for (int i = 0; i < 20; ++i) proposer.catch_up(draft_tasks(refs), {16, 16});
    const std::size_t before = device.queue->bytes_out();
    std::vector<Proposal> proposals(refs.size());
    proposer.propose(draft_tasks(refs, nodes, proposals));
    for (const Proposal& proposal : proposals) EXPECT_EQ(proposal.size(), 3U);
    for (const SequenceRef& ref : refs) proposer.on_verified(ref, {});  // nothing of it was accepted
    return device.queue->bytes_out() - before;
  };
  EXPECT_EQ(bytes_out(), 3 * 8 * kOne) << "a launch of seven chains, filled up to eight";
  sequences[3]->sampling.grammar = testing::grammar_of(R"({"type": "integer"})");
  TokenMasks masks(std::vector<std::string_view>(kRunnerVocab, "7"));
  AnswerGrammar sevens(sequences[3]->sampling.grammar, masks);
  refs[3].grammar = &sevens;
  EXPECT_EQ(bytes_out(), 3 * 8 * kOne + 3 * kRunnerVocab * sizeof(float));
}

// Growing token counts move their tables; captured graphs must not read the old addresses.
TEST(DeviceDraftRunner, AGrowingAnswerMovesTheTablesAndNoToken) {
  const auto weights = draft_of(1);
  const auto live_draft = testing::packed_live_draft(weights);
  RunnerDevice device;
  auto proposer = device.proposer();
  auto sequences = different_sequences(live_draft), alike = different_sequences(live_draft);
  for (const auto& sequence : sequences) proposer.begin(sequence->view());
  for (std::int32_t turn = 0; turn < 5; ++turn) {
    const auto got = propose(proposer, sequences, 3);
    testing::DeviceBench bench(*weights);
    DraftModelProposer one_by_one(
        {.n_pages = 1, .max_running = 8}, weights->config,
        [&](const DraftVersion&, DraftRunner::Size) { return std::make_unique<DraftByLogits>(bench.worker); });
    for (const auto& sequence : alike) one_by_one.begin(sequence->view());
    const auto expected = propose(one_by_one, alike, 3);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].tokens, expected[i].tokens) << "turn " << turn << ", sequence " << i;
      VerifyResult result;
      for (std::int32_t node = 0; node < static_cast<std::int32_t>(got[i].size()); ++node) {
        result.accepted.push_back(node);
      }
      proposer.on_verified(sequences[i]->view(), result);
      for (const auto& sequence : {sequences[i].get(), alike[i].get()}) {
        sequence->tokens.insert(sequence->tokens.end(), got[i].tokens.begin(), got[i].tokens.end());
        sequence->tokens.push_back(turn);
      }
    }
  }
  EXPECT_GT(device.queue->n_captures(), 1) << "tables that moved were captured again";
}

// Drafts of one shape share a cache and a launch, each with its own weights, without affecting each other.
TEST(DeviceDraftRunner, SeveralDraftsRunAheadInOneLaunch) {
  RunnerDevice device;
  auto proposer = device.proposer(/*max_running=*/21);
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;
  std::vector<std::unique_ptr<DraftedSequence>> all;
  for (std::uint32_t draft = 0; draft < 3; ++draft) {
    live_drafts.push_back(testing::packed_live_draft(draft_of(draft + 1), {draft}));
    for (auto& sequence : different_sequences(live_drafts.back())) {
      sequence->ref.id = {all.size() + 1};
      proposer.begin(sequence->view());
      all.push_back(std::move(sequence));
    }
  }
  const std::size_t each = all.size() / live_drafts.size();
  const auto expect_proposals = [&] {
    const auto got = propose(proposer, all, 4);
    for (std::uint32_t draft = 0; draft < 3; ++draft) {
      const auto version = live_drafts[draft]->get();
      const auto expected = expected_proposals(*version->weights, live_drafts[draft], 4);
      for (std::size_t i = 0; i < each; ++i) {
        const Proposal& proposal = got[draft * each + i];
        // Every second one proposes one token less, and each draft has an odd number of sequences.
        const std::size_t n = std::min(proposal.size(), expected[i].size());
        ASSERT_GE(n, 3U);
        EXPECT_TRUE(std::equal(proposal.tokens.begin(), proposal.tokens.begin() + static_cast<std::ptrdiff_t>(n),
                               expected[i].tokens.begin()))
            << "draft " << draft << ", sequence " << i;
        EXPECT_EQ(proposal.version, version->number);
      }
    }
  };
  const auto expect_replayed = [&] {
    const int n_captures = device.queue->n_captures(), n_replays = device.queue->n_replays();
    expect_proposals();
    EXPECT_EQ(device.queue->n_captures(), n_captures);
    EXPECT_EQ(device.queue->n_replays(), n_replays + 1);
  };
  expect_proposals();  // reads the prompts' last rows too, which are many
  expect_proposals();
  EXPECT_EQ(device.n_runners, 1);
  expect_replayed();
  live_drafts[1]->set(packed_version(draft_of(4), 2, {1}));
  expect_proposals();
  expect_replayed();
  live_drafts[0]->set(packed_version(draft_of(5), 2, {0}));
  live_drafts[2]->set(packed_version(draft_of(6), 2, {2}));
  expect_proposals();
  expect_replayed();
}

TEST(DeviceDraftRunner, ADraftWithoutRoomLeavesTheOthersAlone) {
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto served = testing::packed_live_draft(draft_of(1), {0}), late = testing::packed_live_draft(draft_of(2), {1});
  std::vector<std::unique_ptr<DraftedSequence>> sequences;
  for (const auto& live_draft : {served, late}) {
    sequences.push_back(std::make_unique<DraftedSequence>(sequences.size() + 1, 4, live_draft,
                                                          SamplingParams{.seed = 3}, AcceptanceRule::kCoupled));
  }
  proposer.begin(sequences[0]->view());
  device.queue->fill();
  for (int i = 0; i < 3; ++i) proposer.begin(sequences[1]->view());
  EXPECT_EQ(proposer.ready_depth(sequences[1]->view()), 0);
  EXPECT_GT(proposer.ready_depth(sequences[0]->view()), 0);
  const std::vector<SequenceRef> refs{sequences[0]->view(), sequences[1]->view()};
  std::vector<Proposal> proposals(2);
  proposer.propose(draft_tasks(refs, {3, 0}, proposals));
  EXPECT_EQ(proposals[0].size(), 3U);
}

// Two weight slots: a third version waits until the first is unused, and of the waiting versions the newest is taken.
TEST(DeviceDraftRunner, AThirdVersionWaits) {
  const auto live_draft = testing::packed_live_draft(draft_of(1));
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto sequences = different_sequences(live_draft);
  proposer.begin(sequences[0]->view());
  live_draft->set(packed_version(draft_of(2), 2));
  proposer.begin(sequences[1]->view());  // on the second, the first sequence still on the first
  for (std::uint64_t number = 3; number <= 4; ++number) {
    live_draft->set(packed_version(draft_of(number), number));
    proposer.begin(sequences[2]->view());
    EXPECT_EQ(proposer.ready_depth(sequences[2]->view()), 0) << "no weight slot for version " << number;
  }
  proposer.release({1});
  const std::vector<SequenceRef> refs{sequences[2]->view()};
  for (int i = 0; i < 5; ++i) proposer.catch_up(draft_tasks(refs), {16, 16});
  std::vector<Proposal> proposals(1);
  proposer.propose(draft_tasks(refs, {2}, proposals));
  EXPECT_EQ(proposals[0].version, 4U);
  EXPECT_EQ(proposals[0].size(), 2U);
}

TEST(DeviceDraftRunner, ADraftWhoseNumbersBrokeProposesNoMore) {
  auto weights = std::const_pointer_cast<ModelWeights>(draft_of(1));
  weights->final_norm[0] = NAN;
  const auto live_draft = testing::packed_live_draft(weights);
  RunnerDevice device;
  auto proposer = device.proposer();
  const auto sequences = different_sequences(live_draft);
  for (const auto& sequence : sequences) proposer.begin(sequence->view());
  for (const Proposal& proposal : propose(proposer, sequences, 3)) EXPECT_EQ(proposal.size(), 0U);
  for (const auto& sequence : sequences) EXPECT_EQ(proposer.ready_depth(sequence->view()), 0);
}

// Target and draft on the device, swaps in the middle of answers: the answers of plain decoding, bit by bit.
TEST(DeviceDraftRunner, AnEngineThatDraftsOnTheDeviceChangesNoBit) {
  const auto weights = draft_of(1);
  const auto answers_of = [&](std::int32_t k, const SamplingParams& sampling, int swap_every) {
    RunnerDevice device;
    auto worker = std::make_unique<DeviceWorker>(device.queue, *weights, 100, 40, 64);
    const auto live_draft = testing::packed_live_draft(weights);
    const EngineOptions options{.k = k, .max_running = 2, .prefill_chunk = 9};
    auto proposer = std::make_unique<DraftModelProposer>(draft_model_options(options, *worker), weights->config,
                                                         device.make_runner());
    Engine engine(options, std::move(worker), nullptr, std::move(proposer), nullptr, {});
    std::vector<Answer> answers(3);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      std::vector<std::int32_t> prompt(4 + 11 * i, static_cast<std::int32_t>(i));
      Request request = testing::full_request(i + 1, prompt, answers[i]);
      request.sampling = sampling;
      request.max_tokens = 16;
      request.draft = live_draft;
      engine.submit(std::move(request));
    }
    for (std::uint64_t step = 1; engine.step(); ++step) {
      if (swap_every > 0 && step % static_cast<std::uint64_t>(swap_every) == 0) {
        live_draft->set(packed_version(draft_of(step % 3), step + 1));
      }
    }
    return answers;
  };
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.8F, .top_k = 30, .seed = 5}}) {
    const auto plain = answers_of(0, sampling, 0);
    std::int32_t accepted = 0;
    for (const int swap_every : {0, 3}) {
      const auto answers = answers_of(4, sampling, swap_every);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i].same_as(plain[i])) << "answer " << i << ", swaps every " << swap_every;
        accepted += answers[i].summary.figures.accepted;
      }
    }
    EXPECT_GT(accepted, 30) << "a draft that is the target is nearly always right";
  }
}

}  // namespace
}  // namespace slip
