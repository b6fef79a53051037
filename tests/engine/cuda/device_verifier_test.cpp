// SPDX-License-Identifier: Apache-2.0
// Verification results and observations computed after the pass, with the kernels' bodies run on the host, against the
// host's verifier on the same logits; and what is copied to the host for them.
#include "engine/cuda/device_verifier.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/common/patience.h"
#include "tests/engine/cuda/device_bench.h"
#include "tests/engine/cuda/verified_passes.h"
#include "tests/engine/grammar/grammar_walks.h"

namespace slip {
namespace {

using kernels::cuda::DeviceVerifyResult;
using kernels::cuda::HostQueue;
using testing::DeviceBench;
using testing::kPatience;
using testing::tiny_draft;
using testing::tiny_draft_config;
using testing::VerifiedPasses;

// Passes of few rows, which are captured, and of many, which are not. Distributions are summed differently there, so a
// result could depend on the last bits; none of these does.
TEST(DeviceVerifier, VerifyResultsAndObservationsAreTheHosts) {
  const auto queue = std::make_shared<HostQueue>();
  VerifiedPasses passes(queue);
  const unsigned n = 150 / kPatience;
  for (unsigned seed = 0; seed < n; ++seed) passes.run(seed, seed % 4 == 0 ? 14 : 4, static_cast<int>(seed % 6));
  const auto& counts = passes.counts();
  EXPECT_EQ(counts.different, 0);
  EXPECT_GT(counts.results, 900 / kPatience);
  EXPECT_GT(counts.rows, 20 * static_cast<int>(n));
  EXPECT_GT(counts.accepted, 500 / kPatience);
  EXPECT_GT(counts.refused, 150 / kPatience);
  EXPECT_GT(queue->n_replays(), 0);
}

TEST(DeviceVerifier, NegativeAnotherRequestsDistributionIsNoticed) {
  const auto queue = std::make_shared<HostQueue>();
  const auto different_after = [&](const auto& change, unsigned n_passes = 6) {
    VerifiedPasses passes(queue);
    for (unsigned seed = 0; seed < n_passes; ++seed) passes.run(seed, 4, 3, change);
    return passes.counts().different;
  };
  using testing::VerifiedSequence;
  EXPECT_EQ(different_after([](VerifiedSequence&) {}), 0);
  EXPECT_GT(different_after([](VerifiedSequence& one) { one.sampling.temperature *= 2; }), 0);
  EXPECT_GT(different_after([](VerifiedSequence& one) { ++one.ref.choice; }), 0);
  EXPECT_GT(different_after([](VerifiedSequence& one) { one.sampling.repetition_penalty = 0.5F; }), 0);
  const auto forget_q = [](VerifiedSequence& one) {
    for (Distribution& q : one.proposal.q) std::fill(q.probabilities.begin(), q.probabilities.end(), 1e-6);
  };
  EXPECT_GT(different_after(forget_q, 30), 0);
}

TEST(DeviceVerifier, ARequestAloneDecidesWhereItIsVerified) {
  EXPECT_TRUE(has_distribution_on_device({}));
  for (const auto& asked : testing::alone_and_in_pairs())
    EXPECT_TRUE(has_distribution_on_device(asked.sampling)) << asked.name;
  SamplingParams bound;
  bound.grammar = testing::grammar_of(R"({"type": "integer"})");
  EXPECT_FALSE(has_distribution_on_device(bound));
  SequenceRef there, here;
  there.verified_on_device = true;
  EXPECT_FALSE(wants_logits_on_host({}));
  EXPECT_FALSE(wants_logits_on_host({.sequence = &there, .top_k = 32}));
  EXPECT_TRUE(wants_logits_on_host({.sequence = &here}));
  EXPECT_TRUE(wants_logits_on_host({.sequence = &there, .top_k = 129}));
  EXPECT_TRUE(wants_logits_on_host({.sequence = &there, .needs_logits = true}));
}

// Four sequences of five tokens each, greedy, without proposals.
struct FourTasks {
  explicit FourTasks(const ModelWeights& weights) : bench(weights) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      tokens[i] = {10, 11, 12, 13, static_cast<std::int32_t>(14 + i)};
      pages.push_back(std::make_unique<PageTable>(bench.worker.cache()));
      EXPECT_TRUE(pages.back()->reserve(6));
      refs[i].tokens = tokens[i];
      refs[i].prompt_tokens = 5;
      refs[i].sampling = &sampling;
      refs[i].rule = AcceptanceRule::kCoupled;
      refs[i].verified_on_device = true;
      tasks[i].tokens = tokens[i];
      tasks[i].pages = pages.back().get();
      tasks[i].proposal = &nothing;
      tasks[i].sequence = &refs[i];
    }
  }
  std::size_t bytes_out_of_a_pass() {
    const std::size_t before = bench.queue->bytes_out();
    verifier.score(tasks);
    return bench.queue->bytes_out() - before;
  }

  DeviceBench bench;
  DeviceVerifier verifier{bench.worker};
  SamplingParams sampling{.temperature = 0, .seed = 1};
  Proposal nothing;
  std::array<std::vector<std::int32_t>, 4> tokens;
  std::vector<std::unique_ptr<PageTable>> pages;
  std::array<SequenceRef, 4> refs;
  std::array<ScoreTask, 4> tasks;
};

TEST(DeviceVerifier, OnlyRowsThatAreAskedForCross) {
  constexpr std::int32_t kVocab = 900;
  const auto weights = tiny_draft(tiny_draft_config(kVocab), 1);
  FourTasks four(*weights);
  constexpr std::size_t kResults = 4 * sizeof(DeviceVerifyResult), kRow = kVocab * sizeof(float);
  EXPECT_EQ(four.bytes_out_of_a_pass(), kResults);
  for (ScoreTask& task : four.tasks) task.top_k = 32;
  EXPECT_EQ(four.bytes_out_of_a_pass(), kResults + 4U * (32 * 8 + 4));
  for (ScoreTask& task : four.tasks) task.top_k = 0;
  four.tasks[1].needs_logits = true;
  EXPECT_EQ(four.bytes_out_of_a_pass(), kResults + kRow);
  four.refs[2].verified_on_device = false;
  EXPECT_EQ(four.bytes_out_of_a_pass(), kResults - sizeof(DeviceVerifyResult) + 2 * kRow);
  four.tasks[1].wants_all_logits = true;  // of a scored prompt
  EXPECT_EQ(four.bytes_out_of_a_pass(), kResults - sizeof(DeviceVerifyResult) + 6 * kRow);
  four.tasks[3].sequence = nullptr;  // a prompt that is only read
  EXPECT_EQ(four.bytes_out_of_a_pass(), kResults - 2 * sizeof(DeviceVerifyResult) + 6 * kRow);
  four.tasks[0].wants_logits = four.tasks[3].wants_logits = false;  // or not to its end
  four.tasks[0].sequence = nullptr;
  EXPECT_EQ(four.bytes_out_of_a_pass(), sizeof(DeviceVerifyResult) + 6 * kRow);
}

// A scored prompt between them is only verified in its last row. A prompt that is read, and a task that is not
// observed, cost nothing.
TEST(DeviceVerifier, OnlyRowsThatAreAskedForAreVerifiedAndObserved) {
  const auto weights = tiny_draft(tiny_draft_config(300), 2);
  FourTasks four(*weights);
  four.sampling = {.temperature = 0.8F, .presence_penalty = 0.5F, .seed = 6};
  Proposal guess;
  guess.add_to_chain(3, 0);
  guess.add_to_chain(4, 0);
  four.tasks[3].proposal = &guess;
  for (ScoreTask& task : four.tasks) task.top_k = 5;
  four.tasks[0].top_k = 0;
  for (std::int32_t i = 0; i < 75; ++i) four.tokens[1].push_back(i % 90);
  four.refs[1].tokens = four.tasks[1].tokens = four.tokens[1];
  ASSERT_TRUE(four.pages[1]->reserve(90) && four.pages[3]->reserve(8));
  four.tasks[1].wants_all_logits = four.tasks[1].needs_logits = true;
  four.tasks[2].wants_logits = false;
  four.tasks[2].sequence = nullptr;
  LocalVerifier host(four.bench.worker);
  host.score(four.tasks);
  std::array<VerifyResult, 4> expected;
  std::vector<TopK> seen;
  for (const std::size_t i : {0, 1, 3}) host.verify(i, expected[i]);
  for (std::int32_t row = 0; row < 3; ++row) seen.push_back(host.observed(3, row));
  const HostQueue& queue = *four.bench.queue;
  four.verifier.score(four.tasks);
  EXPECT_EQ(queue.n_replays(), 0) << "a pass of many rows";
  EXPECT_EQ(queue.rows_of<kernels::cuda::ProcessLogits>(), 5);
  EXPECT_EQ(queue.rows_of<kernels::cuda::MakeDistributions>(), 5);
  EXPECT_EQ(queue.rows_of<kernels::cuda::GumbelParts>(), 5);
  EXPECT_EQ(queue.rows_of<kernels::cuda::Observe>(), 4);
  for (const std::size_t i : {0, 1, 3}) {
    VerifyResult result;
    four.verifier.verify(i, result);
    EXPECT_EQ(result.accepted, expected[i].accepted) << i;
    EXPECT_EQ(result.added_token, expected[i].added_token) << i;
  }
  for (std::int32_t row = 0; row < 3; ++row) {
    EXPECT_EQ(four.verifier.observed(3, row).ids, seen[static_cast<std::size_t>(row)].ids) << row;
  }
  EXPECT_EQ(four.verifier.observed(1, 0).ids, host.observed(1, 0).ids);
}

// Whoever verifies, and whatever else is copied.
TEST(DeviceVerifier, TheRowsThatCrossAreTheirs) {
  const auto weights = tiny_draft(tiny_draft_config(300), 2);
  FourTasks four(*weights);
  LocalVerifier host(four.bench.worker);
  host.score(four.tasks);
  std::vector<std::vector<float>> expected;
  std::vector<VerifyResult> results(4);
  for (std::size_t i = 0; i < 4; ++i) {
    expected.emplace_back(host.logits(i, 0).begin(), host.logits(i, 0).end());
    host.verify(i, results[i]);
  }
  EXPECT_NE(results[0].added_token, results[1].added_token);
  four.tasks[1].needs_logits = true;
  four.refs[3].verified_on_device = false;
  four.verifier.score(four.tasks);
  for (const std::size_t i : {1, 3}) {
    EXPECT_EQ(std::vector(four.verifier.logits(i, 0).begin(), four.verifier.logits(i, 0).end()), expected[i]);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    VerifyResult result;
    four.verifier.verify(i, result);
    EXPECT_EQ(result.added_token, results[i].added_token) << i;
  }
}

TEST(DeviceVerifier, ABrokenRowIsAnErrorOfItsRequestAlone) {
  const auto weights = std::const_pointer_cast<ModelWeights>(tiny_draft(tiny_draft_config(300), 2));
  auto* embedding = reinterpret_cast<float*>(weights->embedding.data());
  embedding[16 * 32 + 3] = NAN;  // of a token that one of them has
  FourTasks four(*weights);
  four.verifier.score(four.tasks);
  VerifyResult result;
  for (const std::size_t i : {0, 1, 3}) EXPECT_NO_THROW(four.verifier.verify(i, result));
  try {
    four.verifier.verify(2, result);
    FAIL() << "a result from what is not a number";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), broken_logits().message());
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  }
}

// As on the host: an error after an accepted token ends the path with that token, which may end the answer.
TEST(DeviceVerifier, ABrokenRowBehindAnAcceptedTokenIsNoErrorYet) {
  const auto weights = tiny_draft(tiny_draft_config(300), 2);
  FourTasks four(*weights);
  four.sampling.presence_penalty = -INFINITY;  // the first token of an answer breaks the row after it
  VerifyResult plain;
  four.verifier.score(four.tasks);
  four.verifier.verify(0, plain);
  Proposal guess;
  guess.add_to_chain(plain.added_token, 0);
  four.tasks[0].proposal = &guess;
  LocalVerifier host(four.bench.worker);
  host.score(four.tasks);
  four.verifier.score(four.tasks);
  for (Verifier* verifier : {static_cast<Verifier*>(&host), static_cast<Verifier*>(&four.verifier)}) {
    VerifyResult result;
    verifier->verify(0, result);
    EXPECT_TRUE(result.accepted.empty());
    EXPECT_EQ(result.added_token, plain.added_token);
    EXPECT_FALSE(result.rejected_one);
  }
}

TEST(DeviceVerifier, StepsOfOneShapeAreCapturedOnce) {
  const auto weights = tiny_draft(tiny_draft_config(300), 2);
  FourTasks four(*weights);
  for (int i = 0; i < 5; ++i) four.verifier.score(four.tasks);
  EXPECT_EQ(four.bench.queue->n_captures(), 2) << "the pass, and what verifies it";
  EXPECT_EQ(four.bench.queue->n_replays(), 10);
  EXPECT_EQ(four.bench.queue->n_puts(), 0);
  four.tasks[3].sequence = nullptr;  // three of them
  for (int i = 0; i < 2; ++i) four.verifier.score(four.tasks);
  EXPECT_EQ(four.bench.queue->n_captures(), 2);
  four.sampling.presence_penalty = 1;  // with logits processors
  for (int i = 0; i < 2; ++i) four.verifier.score(four.tasks);
  EXPECT_EQ(four.bench.queue->n_captures(), 3);
}

// Growing tables move; captured graphs must not read the old addresses.
TEST(DeviceVerifier, AGrowingAnswerMovesTheTablesAndNoResult) {
  const auto weights = tiny_draft(tiny_draft_config(300), 2);
  FourTasks four(*weights);
  LocalVerifier host(four.bench.worker);
  four.sampling = {.temperature = 0.9F, .presence_penalty = 0.5F, .logit_bias = {{9, 1.0F}, {4, -1.0F}}, .seed = 4};
  for (auto& pages : four.pages) ASSERT_TRUE(pages->reserve(40));
  for (int step = 0; step < 12; ++step) {
    for (std::size_t i = 0; i < 4; ++i) {
      four.refs[i].tokens = four.tokens[i];
      four.tasks[i].tokens = std::span<const std::int32_t>(four.tokens[i]).subspan(four.tokens[i].size() - 5);
      four.tasks[i].n_cached = static_cast<std::int32_t>(four.tokens[i].size()) - 5;
    }
    host.score(four.tasks);
    std::array<VerifyResult, 4> expected;
    for (std::size_t i = 0; i < 4; ++i) host.verify(i, expected[i]);
    four.verifier.score(four.tasks);
    for (std::size_t i = 0; i < 4; ++i) {
      VerifyResult result;
      four.verifier.verify(i, result);
      EXPECT_EQ(result.added_token, expected[i].added_token) << "step " << step;
      four.tokens[i].push_back(result.added_token);
      if (step % 4 == 3) four.sampling.logit_bias.push_back({20 + static_cast<std::int32_t>(4 * step + i), 0.5F});
    }
  }
}

TEST(DeviceVerifier, GivesBackAllThatItTook) {
  const auto weights = tiny_draft(tiny_draft_config(100), 2);
  const auto queue = std::make_shared<HostQueue>();
  {
    DeviceWorker worker(queue, *weights, 16, 16, 8);
    const int before = queue->n_allocations();
    { const DeviceVerifier verifier(worker); }
    EXPECT_EQ(queue->n_allocations(), before);
  }
  EXPECT_EQ(queue->n_allocations(), 0);
}

}  // namespace
}  // namespace slip
