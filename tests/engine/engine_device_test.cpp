// SPDX-License-Identifier: Apache-2.0
// A whole engine whose target runs on a device, emulated by running the kernels' bodies on the host. Verification is on
// the device or on the host. Answers with speculation equal those without, and only requested logits are copied from
// the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/cuda/device_draft_runner.h"
#include "engine/cuda/device_verifier.h"
#include "tests/engine/cuda/device_bench.h"
#include "tests/engine/cuda/packed_drafts.h"
#include "tests/engine/engine_answers.h"

namespace slip {
namespace {

using testing::Answer;
using testing::tiny_draft;
using testing::tiny_draft_config;

constexpr std::int32_t kAnswerTokens = 15, kBrokenToken = 90;

struct Case {
  SamplingParams sampling;
  std::int32_t k = 0, concurrency = 1, prefill_chunk = 16;
  bool verified_on_device = true, drafted_on_device = true;
  int swap_every = 0;
  std::uint64_t draft = 1;                     // 1: the target, and nearly always right; 2: something else
  const std::vector<Answer>* known = nullptr;  // these are proposed
  bool breaks = false;                         // at one token
  std::int32_t vocab = 120;
  bool looks_up = false;  // prompt lookup beside the draft, and lengths as they pay
};

// Proposes known answers as trees: at each depth a wrong token and its later sibling, the right one.
class TreesOfKnown final : public Proposer {
 public:
  explicit TreesOfKnown(const std::vector<Answer>& known) : known_(known) {}
  bool drafts_for(const SequenceRef&) const override { return true; }
  void begin(const SequenceRef&) override {}
  CatchUpTimes catch_up(std::span<const DraftTask>, CatchUpBudget) override { return {}; }
  std::int32_t ready_depth(const SequenceRef&) override { return kMaxProposalNodes; }
  void release(RequestId) override {}
  void on_verified(const SequenceRef&, const VerifyResult&) override {}
  std::int32_t propose(std::span<const DraftTask> tasks) override {
    for (const DraftTask& task : tasks) {
      const auto& answer = known_[task.sequence->id.value - 1].tokens;
      Proposal& proposal = *task.proposal;
      std::int32_t parent = -1;
      for (std::size_t at = task.sequence->next_address().output_index; at < answer.size(); ++at) {
        if (static_cast<std::int32_t>(proposal.size()) + 2 > task.nodes) break;
        for (const std::int32_t token : {(answer[at] + 1) % 100, answer[at]}) {
          proposal.tokens.push_back(token);
          proposal.parents.push_back(parent);
          proposal.path_logprob.push_back(0);
          proposal.proposed_by.push_back(ProposedBy::kDraft);
        }
        parent = static_cast<std::int32_t>(proposal.size()) - 1;
      }
    }
    return 0;
  }

 private:
  const std::vector<Answer>& known_;
};

// An engine with an emulated device and three requests.
class DeviceEngine {
 public:
  explicit DeviceEngine(const Case& run, const std::function<void(Request&)>& change = {}) : run_(run) {
    const auto weights = draft_of(1);
    live_draft_ = testing::packed_live_draft(draft_of(run.draft));
    EngineOptions options{.k = run.k, .max_running = run.concurrency, .prefill_chunk = run.prefill_chunk};
    options.catch_up_chunk = 6;
    options.seed = 7;
    options.prompt_lookup = options.adaptive_k = run.looks_up;
    auto worker = std::make_unique<DeviceWorker>(queue_, *weights, 100, 40, 64);
    auto proposer = make_proposer(options, *worker);
    auto verifier = run.verified_on_device ? std::make_unique<DeviceVerifier>(*worker) : nullptr;
    Target target = verifier != nullptr ? Target(std::move(worker), std::move(verifier)) : Target(std::move(worker));
    engine_.emplace(options, std::move(target), nullptr, std::move(proposer), &observations,
                    std::vector<StepListener*>{});
    for (std::size_t i = 0; i < answers.size(); ++i) submit(i, change);
  }

  // The most bytes that one step copied to the host.
  std::size_t drain() {
    std::size_t most = 0, before = queue_->bytes_out();
    for (std::uint64_t step = 1; engine_->step(); ++step) {
      most = std::max(most, queue_->bytes_out() - before);
      if (run_.swap_every > 0 && step % static_cast<std::uint64_t>(run_.swap_every) == 0) {
        live_draft_->set(testing::packed_version(draft_of(step % 2 + 1), step + 1));
      }
      before = queue_->bytes_out();
    }
    return most;
  }

  std::vector<Answer> answers = std::vector<Answer>(3);
  testing::RecordingObservations observations;

 private:
  std::shared_ptr<const ModelWeights> draft_of(std::uint64_t seed) const {
    const auto weights = std::const_pointer_cast<ModelWeights>(tiny_draft(tiny_draft_config(run_.vocab), seed));
    if (run_.breaks) reinterpret_cast<float*>(weights->embedding.data())[kBrokenToken * 32] = NAN;
    return weights;
  }
  std::unique_ptr<Proposer> make_proposer(const EngineOptions& options, Worker& worker) {
    if (run_.known != nullptr) return std::make_unique<TreesOfKnown>(*run_.known);
    const DraftModelOptions draft = draft_model_options(options, worker);
    if (!run_.drafted_on_device) return std::make_unique<DraftModelProposer>(draft, worker.config(), pool_);
    return std::make_unique<DraftModelProposer>(
        draft, worker.config(), [this](const DraftVersion& first, DraftRunner::Size size) {
          return std::make_unique<DeviceDraftRunner>(queue_, first, size, kMaxProposalNodes);
        });
  }
  void submit(std::size_t i, const std::function<void(Request&)>& change) {
    Request request;
    request.id = {i + 1};
    for (std::size_t j = 0; j < 5 + 14 * i; ++j) {
      request.prompt.push_back(static_cast<std::int32_t>((7 * j + 3 * i) % kBrokenToken));
    }
    request.sampling = run_.sampling;
    request.max_tokens = kAnswerTokens;
    request.end_ids = {50};
    request.draft = live_draft_;
    request.sink = std::make_shared<testing::CollectingSink>(answers[i]);
    if (change) change(request);
    engine_->submit(std::move(request));
  }

  Case run_;
  kernels::ThreadPool pool_{1};
  std::shared_ptr<kernels::cuda::HostQueue> queue_ = std::make_shared<kernels::cuda::HostQueue>();
  std::shared_ptr<LiveDraft> live_draft_;
  std::optional<Engine> engine_;
};

void ask_for_all(Request& request) {
  request.top_logprobs = 2;
  request.checksum = true;
}

std::vector<Answer> answers_of(const Case& run, const std::function<void(Request&)>& change = {}) {
  DeviceEngine engine(run, change);
  engine.drain();
  return engine.answers;
}

// Sampling settings that a device verifies, without logits processors and with ones that depend on earlier tokens.
std::vector<SamplingParams> seeded() {
  return {{.temperature = 0},
          {.temperature = 0.7F, .top_p = 0.9F, .seed = 42},
          {.temperature = 1, .presence_penalty = 0.6F, .logit_bias = {{50, -3}, {7, 1}}, .min_tokens = 5, .seed = 43}};
}
std::vector<SamplingParams> unseeded() {
  return {{}, {.temperature = 0.8F, .top_k = 30, .min_p = 0.01F}, {.repetition_penalty = 1.4F, .min_tokens = 3}};
}

TEST(EngineOnADevice, SpeculationChangesNoBit) {
  for (const bool on_device : {false, true}) {
    std::int32_t accepted = 0;
    for (const SamplingParams& sampling : seeded()) {
      const auto plain = answers_of({.sampling = sampling, .verified_on_device = on_device}, ask_for_all);
      for (Case run : {Case{sampling, 1}, Case{sampling, 4, 3}, Case{sampling, 8, 2, 7}}) {
        run.verified_on_device = on_device;
        run.drafted_on_device = run.k != 4;
        run.swap_every = run.k == 8 ? 2 : 0;
        const auto answers = answers_of(run, ask_for_all);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << run.k << " answer " << i;
          EXPECT_NE(answers[i].summary.figures.checksum, 0U);
          accepted += answers[i].summary.figures.accepted;
        }
      }
    }
    EXPECT_GT(accepted, 90);
  }
}

// A step proposes what the draft says or what the text repeats, whichever pays.
TEST(EngineOnADevice, GuessesBesideADraftChangeNoBit) {
  std::int32_t accepted = 0;
  for (const SamplingParams& sampling : seeded()) {
    const auto plain = answers_of({.sampling = sampling, .verified_on_device = true}, ask_for_all);
    for (const bool drafted_on_device : {false, true}) {
      Case run{sampling, 8, 3};
      run.verified_on_device = run.looks_up = true;
      run.drafted_on_device = drafted_on_device;
      // What is expected comes true but for one token.
      const auto answers = answers_of(run, [&](Request& request) {
        ask_for_all(request);
        request.prediction = plain[request.id.value - 1].tokens;
        request.prediction[3] = (request.prediction[3] + 1) % 50;
      });
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i].same_as(plain[i])) << "answer " << i;
        accepted += answers[i].summary.figures.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 30);
}

// Verified on the device and on the host, with all outputs requested or none; with drafts on the CPU, whose
// distributions come as tables, and on the device, where they stay, of two versions at once.
TEST(EngineOnADevice, AnAnswerIsTheSameWhereverItIsVerified) {
  auto samplings = seeded();
  for (const SamplingParams& sampling : unseeded()) samplings.push_back(sampling);
  std::int32_t accepted = 0, refused = 0;
  for (const SamplingParams& sampling : samplings) {
    for (Case run : {Case{sampling, 0, 2}, Case{sampling, 4, 3}, Case{sampling, 3, 3}}) {
      run.drafted_on_device = run.k != 3;
      run.swap_every = run.k == 4 ? 2 : 0;
      run.draft = run.k == 4 ? 1 : 2;
      const auto there = answers_of(run), told = run.k == 4 ? answers_of(run, ask_for_all) : there;
      run.verified_on_device = false;
      const auto here = answers_of(run);
      for (std::size_t i = 0; i < here.size(); ++i) {
        EXPECT_EQ(there[i].tokens, here[i].tokens) << "k " << run.k << " answer " << i;
        EXPECT_EQ(there[i].tokens, told[i].tokens) << "k " << run.k << " answer " << i;
        accepted += there[i].summary.figures.accepted;
        refused += there[i].summary.figures.first_rejections;
      }
    }
  }
  EXPECT_GT(accepted, 150);
  EXPECT_GT(refused, 150);
}

TEST(EngineOnADevice, TreesAreAcceptedAlongTheirPath) {
  for (const SamplingParams& sampling : seeded()) {
    const auto plain = answers_of({.sampling = sampling}, ask_for_all);
    const auto answers = answers_of({.sampling = sampling, .k = 8, .concurrency = 3, .known = &plain}, ask_for_all);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(answers[i].same_as(plain[i])) << i;
      const RequestFigures& figures = answers[i].summary.figures;
      EXPECT_GE(figures.accepted + figures.accepted_siblings, std::ssize(plain[i].tokens) * 3 / 5) << i;
    }
  }
}

// A step's results, observations and drafts together are less than one row of logits.
TEST(EngineOnADevice, NoRowOfLogitsCrossesWhereNoneIsAskedFor) {
  constexpr std::int32_t kVocab = 4000;
  constexpr std::size_t kRow = kVocab * sizeof(float);
  for (const SamplingParams& sampling :
       {seeded()[0], seeded()[1], seeded()[2], unseeded()[0], unseeded()[1], unseeded()[2]}) {
    Case run{.sampling = sampling, .k = 4, .concurrency = 3, .swap_every = 3, .vocab = kVocab};
    DeviceEngine engine(run);
    EXPECT_LT(engine.drain(), kRow);
    for (const Answer& answer : engine.answers) EXPECT_FALSE(answer.tokens.empty());
    EXPECT_FALSE(engine.observations.recorded.empty());
  }
}

// Requests of one step whose drafts differ: they share every launch, and no answer changes.
TEST(EngineOnADevice, DraftsThatShareALaunchChangeNoBit) {
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;
  for (std::uint32_t i = 0; i < 3; ++i) {
    live_drafts.push_back(testing::packed_live_draft(tiny_draft(tiny_draft_config(Case{}.vocab), i + 1), {i}));
  }
  int accepted = 0;
  for (const SamplingParams& sampling : seeded()) {
    const auto plain = answers_of({.sampling = sampling});
    const auto answers = answers_of({.sampling = sampling, .k = 4, .concurrency = 3},
                                    [&](Request& request) { request.draft = live_drafts[request.id.value - 1]; });
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, plain[i].tokens) << i;
      accepted += answers[i].summary.figures.accepted;
    }
  }
  EXPECT_GT(accepted, 20) << "one of them is the target";
}

TEST(EngineOnADevice, NegativeRowsThatCrossAreCounted) {
  constexpr std::int32_t kVocab = 4000;
  constexpr std::size_t kRow = kVocab * sizeof(float);
  Case run{.sampling = seeded()[1], .k = 4, .concurrency = 3, .vocab = kVocab};
  const auto one_is_told = [](Request& request) {
    if (request.id.value == 2) request.top_logprobs = 0;
  };
  const std::size_t of_one = DeviceEngine(run, one_is_told).drain();
  EXPECT_GT(of_one, 5 * kRow);
  EXPECT_LT(of_one, 6 * kRow);
  run.verified_on_device = false;
  EXPECT_GT(DeviceEngine(run).drain(), 10 * kRow);
}

TEST(EngineOnADevice, WhatIsObservedIsTheSameWhereverItIsVerified) {
  Case run{.sampling = {.temperature = 0.9F}, .k = 3, .concurrency = 3};
  DeviceEngine there(run);
  there.drain();
  run.verified_on_device = false;
  DeviceEngine here(run);
  here.drain();
  int n_rows = 0;
  for (const auto& [id, expected] : here.observations.recorded) {
    const auto& seen = there.observations.recorded.at(id);
    ASSERT_EQ(seen.size(), expected.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].committed, expected[i].committed);
      ASSERT_EQ(seen[i].targets.size(), expected[i].targets.size());
      for (std::size_t row = 0; row < seen[i].targets.size(); ++row, ++n_rows) {
        const TopK &got = seen[i].targets[row], &wanted = expected[i].targets[row];
        EXPECT_EQ(got.ids, wanted.ids);
        EXPECT_EQ(got.ids.size(), 32U);
        for (std::size_t j = 0; j < got.logprobs.size(); ++j) EXPECT_NEAR(got.logprobs[j], wanted.logprobs[j], 1e-5);
        EXPECT_NEAR(got.log_tail, wanted.log_tail, 1e-5);
      }
    }
  }
  EXPECT_GT(n_rows, 30);
}

TEST(EngineOnADevice, NumbersThatBreakEndTheirRequestAlone) {
  for (const SamplingParams& sampling : {seeded()[1], unseeded()[0], seeded()[2]}) {
    const Case run{.sampling = sampling, .k = 3, .concurrency = 3, .breaks = true};
    const auto whole = answers_of(run);
    const auto answers = answers_of(run, [](Request& request) {
      if (request.id.value == 2) request.prompt.back() = kBrokenToken;
    });
    EXPECT_EQ(answers[1].summary.reason, StopReason::kFailed);
    ASSERT_TRUE(answers[1].summary.error.has_value());
    EXPECT_EQ(answers[1].summary.error->message(), broken_logits().message());
    EXPECT_TRUE(answers[1].tokens.empty());
    for (const std::size_t i : {0, 2}) EXPECT_EQ(answers[i].tokens, whole[i].tokens) << i;
  }
}

TEST(EngineOnADevice, AScoredPromptAndOneThatIsOnlyReadAreServedBesideOthers) {
  const auto change = [](Request& request) {
    if (request.id.value == 1) request.max_tokens = 0;
    if (request.id.value == 2) request.top_logprobs = 1;
    if (request.id.value == 2) request.score_prompt = true;
  };
  Case run{.sampling = seeded()[1], .k = 3, .concurrency = 3};
  const auto there = answers_of(run, change);
  run.verified_on_device = false;
  const auto here = answers_of(run, change);
  EXPECT_EQ(there[0].summary.reason, StopReason::kLength);
  EXPECT_EQ(there[1].logprobs, here[1].logprobs);
  ASSERT_EQ(there[1].prompt_logprobs.size(), 19U);
  for (std::size_t i = 1; i < 19; ++i) {
    EXPECT_EQ(there[1].prompt_logprobs[i].logprob, here[1].prompt_logprobs[i].logprob);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(there[i].tokens, here[i].tokens);
}

}  // namespace
}  // namespace slip
