// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of drafting on a device through a DraftModelProposer: sequences with every distribution and every
// logits processor, and the same proposals from single passes whose logits go through the CPU's transform and draws.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/speculative/draft_model_proposer.h"
#include "tests/engine/cuda/device_bench.h"
#include "tests/engine/cuda/packed_drafts.h"
#include "tests/engine/draft_tasks.h"

namespace slip::testing {

inline constexpr std::int32_t kRunnerVocab = 60;

inline std::shared_ptr<const ModelWeights> draft_of(std::uint64_t seed) {
  return tiny_draft(tiny_draft_config(kRunnerVocab), seed);
}

struct RunnerDevice {
  MakeDraftRunner make_runner() {
    return [this](const DraftVersion& first, DraftRunner::Size size) {
      ++n_runners;
      return std::make_unique<DeviceDraftRunner>(queue, first, size, kMaxProposalNodes);
    };
  }
  DraftModelProposer proposer(std::int32_t max_running = 8) {
    const DraftModelOptions options{
        .n_pages = 500, .max_running = max_running, .prompt_chunk = 16, .catch_up_chunk = 16};
    return {options, tiny_draft_config(kRunnerVocab), make_runner()};
  }
  std::shared_ptr<kernels::cuda::HostQueue> queue = std::make_shared<kernels::cuda::HostQueue>();
  int n_runners = 0;
};

// A sequence as a proposer sees it.
struct DraftedSequence {
  DraftedSequence(std::uint64_t id, std::int32_t n_prompt, std::shared_ptr<LiveDraft> from, SamplingParams with,
                  AcceptanceRule rule)
      : live_draft(std::move(from)), sampling(std::move(with)) {
    for (std::int32_t i = 0; i < n_prompt; ++i) {
      tokens.push_back((i * 7 + static_cast<std::int32_t>(id)) % kRunnerVocab);
    }
    ref.id = {id};
    ref.prompt_tokens = n_prompt;
    ref.max_total_tokens = 200;
    ref.sampling = &sampling;
    ref.rule = rule;
    ref.live_draft = live_draft.get();
    ref.end_ids = end_ids;
  }
  SequenceRef view() {
    ref.tokens = tokens;
    return ref;
  }
  std::vector<std::int32_t> tokens, end_ids{3, 5};
  std::shared_ptr<LiveDraft> live_draft;
  SamplingParams sampling;
  SequenceRef ref;
};

inline std::vector<Proposal> propose(DraftModelProposer& proposer,
                                     std::span<const std::unique_ptr<DraftedSequence>> sequences, std::int32_t k) {
  std::vector<SequenceRef> refs;
  for (const auto& sequence : sequences) refs.push_back(sequence->view());
  for (int i = 0; i < 20; ++i) proposer.catch_up(draft_tasks(refs), {16, 16});
  std::vector<std::int32_t> nodes(refs.size(), k);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] -= static_cast<std::int32_t>(i % 2);
  std::vector<Proposal> proposals(refs.size());
  proposer.propose(draft_tasks(refs, nodes, proposals));
  return proposals;
}

// Every distribution and every logits processor.
inline std::vector<std::unique_ptr<DraftedSequence>> different_sequences(const std::shared_ptr<LiveDraft>& live_draft) {
  std::vector<std::unique_ptr<DraftedSequence>> out;
  const auto add = [&](std::int32_t n, SamplingParams sampling, AcceptanceRule rule) {
    out.push_back(std::make_unique<DraftedSequence>(out.size() + 1, n, live_draft, std::move(sampling), rule));
  };
  add(9, {.temperature = 1, .seed = 1}, AcceptanceRule::kCoupled);
  add(40, {.temperature = 0, .seed = 2}, AcceptanceRule::kCoupled);
  add(21, {.temperature = 0.8F, .top_p = 0.9F, .seed = 3}, AcceptanceRule::kRejection);
  add(5, {.temperature = 1, .presence_penalty = 1.5F, .seed = 4}, AcceptanceRule::kRejection);
  add(3, {.temperature = 1, .repetition_penalty = 1.3F, .seed = 5}, AcceptanceRule::kCoupled);
  add(12, {.temperature = 0, .frequency_penalty = 2, .logit_bias = {{40, 3.0F}, {7, -100.0F}}, .seed = 6},
      AcceptanceRule::kCoupled);
  add(7, {.temperature = 1.2F, .top_k = 9, .min_p = 0.05F, .logit_bias = {{3, 6.0F}}, .min_tokens = 2, .seed = 7},
      AcceptanceRule::kRejection);
  for (const auto& sequence : out) sequence->ref.wants_probability = true;
  return out;
}

// The same passes, one token at a time and with the CPU's sampling, in the way that drafting under a grammar works.
class DraftByLogits final : public DraftRunner {
 public:
  explicit DraftByLogits(DeviceWorker& worker) : worker_(worker) {}
  bool fits(const DraftVersion&) const override { return true; }
  std::shared_ptr<const void> admit(const std::shared_ptr<const DraftVersion>& version) override { return version; }
  const ModelConfig& config() const override { return worker_.config(); }
  PagePool& cache() override { return worker_.cache(); }
  std::int64_t n_passes() const override { return 0; }
  void read(std::span<const DraftSlice> slices) override { run(slices); }
  void propose(std::span<DraftChain> chains) override { grow_by_logits(chains); }

 private:
  void run(std::span<const DraftSlice> slices) override {
    logits_.assign(slices.size(), std::vector<float>(kRunnerVocab));
    for (std::size_t i = 0; i < slices.size(); ++i) run_one(slices[i], logits_[i]);
  }
  void run_one(const DraftSlice& slice, std::vector<float>& logits) {
    const auto n = static_cast<std::int32_t>(slice.tokens.size());
    std::vector<std::int32_t> positions(slice.tokens.size());
    std::iota(positions.begin(), positions.end(), slice.n_cached);
    const std::vector<std::int32_t> row_begin{0, n}, logit_rows{n - 1};
    KvView kv;
    kv.pages = slice.pages;
    kv.n_cached = slice.n_cached;
    StepInput input;
    input.tokens = slice.tokens;
    input.positions = positions;
    input.row_begin = row_begin;
    input.kv = {&kv, 1};
    input.logit_rows = logit_rows;
    StepOutput output;
    output.logits = TensorView::contiguous(logits.data(), {1, kRunnerVocab});
    worker_.run(input, output);
  }
  std::span<const float> logits(std::size_t i) const override { return logits_[i]; }

  DeviceWorker& worker_;
  std::vector<std::vector<float>> logits_;
};

inline std::vector<Proposal> expected_proposals(const ModelWeights& weights,
                                                const std::shared_ptr<LiveDraft>& live_draft, std::int32_t k) {
  DeviceBench bench(weights);
  DraftModelProposer proposer(
      {.n_pages = 1, .max_running = 8}, weights.config,
      [&](const DraftVersion&, DraftRunner::Size) { return std::make_unique<DraftByLogits>(bench.worker); });
  const auto sequences = different_sequences(live_draft);
  for (const auto& sequence : sequences) proposer.begin(sequence->view());
  return propose(proposer, sequences, k);
}

}  // namespace slip::testing
