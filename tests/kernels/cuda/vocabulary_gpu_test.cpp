// SPDX-License-Identifier: Apache-2.0
// Launched distributions, draws, verifications, observations and losses against the same bodies run on the host.
// Distributions are integers and agree to the bit; what goes through the mathematics library's logarithms agrees to
// their last bits.
#include <memory>

#include "tests/kernels/cuda/gpu_test.h"
#include "tests/kernels/cuda/host_grid.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels::cuda {
namespace {

constexpr cudaStream_t kStream = nullptr;
constexpr std::int32_t kVocab = 32000, kRows = 5;

// Rows of the target and of a draft that roughly agrees, each with a transform of its own.
struct Rows {
  Rows() {
    logits = random_floats(kRows * kVocab, 1);
    draft = random_floats(kRows * kVocab, 2);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] *= 3;
      draft[i] = logits[i] + 0.3F * draft[i];
    }
    for (std::uint32_t row = 0; row < kRows; ++row) addresses.push_back({7, 0, row});
  }
  std::vector<RowDistribution> distributions_on_host(const std::vector<float>& of) const {
    std::vector<RowDistribution> distributions(kRows);
    const auto shared = std::make_unique<DistributionShared>();
    const MakeDistributions job{of.data(), kVocab, kVocab, transforms.data(), distributions.data()};
    run_on_host<kVocabularyThreads>({kRows},
                                    [&](const VocabularyBlock& block) { make_distribution(block, job, *shared); });
    return distributions;
  }
  std::vector<float> logits, draft;
  std::vector<Transform> transforms = {{1}, {0}, {0.7, 0.02}, {1, 0, 0.9}, {1.3, 0, 0.95, 40}};
  std::vector<RandomAddress> addresses;
};

using GpuVocabulary = GpuTest;

TEST_F(GpuVocabulary, DistributionsAreTheHostsInOneBlockOrInParts) {
  const Rows rows;
  const auto expected = rows.distributions_on_host(rows.logits);
  const DeviceArray<float> logits(rows.logits);
  const DeviceArray<Transform> transforms(rows.transforms);
  for (const bool with_parts : {false, true}) {
    const DeviceArray<RowDistribution> distributions{std::vector<RowDistribution>(kRows)};
    const DeviceArray<RowPart> parts(std::vector<RowPart>(kRows * kRowParts));
    MakeDistributions job{logits.get(), kVocab, kVocab, transforms.get(), distributions.get()};
    if (with_parts) job.parts = parts.get();
    enqueue(job, kRows, kStream);
    const auto got = distributions.values();
    for (std::size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(got[row].total, expected[row].total) << row;
      EXPECT_EQ(got[row].border, expected[row].border) << row;
      EXPECT_EQ(got[row].best, expected[row].best) << row;
      EXPECT_EQ(got[row].state, DistributionState::kFine) << row;
    }
  }
}

TEST_F(GpuVocabulary, DrawsAreTheHosts) {
  const Rows rows;
  const auto host_distributions = rows.distributions_on_host(rows.logits);
  const DeviceArray<float> logits(rows.logits);
  const DeviceArray<RowDistribution> distributions(host_distributions);
  const DeviceArray<RandomAddress> addresses(rows.addresses);
  for (const bool coupled : {false, true}) {
    std::vector<std::int32_t> expected(kRows, -1);
    DrawTokens job;
    job.logits = rows.logits.data();
    job.stride = job.vocab = kVocab;
    job.distributions = host_distributions.data();
    job.addresses = rows.addresses.data();
    job.coupled = coupled;
    job.tokens = expected.data();
    const auto shared = std::make_unique<DistributionShared>();
    run_on_host<kVocabularyThreads>({kRows}, [&](const VocabularyBlock& block) { draw_token(block, job, *shared); });
    const DeviceArray<std::int32_t> tokens(std::vector<std::int32_t>(kRows, -1));
    job.logits = logits.get();
    job.distributions = distributions.get();
    job.addresses = addresses.get();
    job.tokens = tokens.get();
    enqueue(job, kRows, kStream);
    EXPECT_EQ(tokens.values(), expected) << "coupled " << coupled;
    if (!coupled) continue;
    const DeviceArray<RowPart> parts(std::vector<RowPart>(kRows * kRowParts));
    enqueue(GumbelParts{logits.get(), kVocab, kVocab, distributions.get(), addresses.get(), parts.get()}, kRows,
            kStream);
    job.parts = parts.get();
    enqueue(job, kRows, kStream);
    EXPECT_EQ(tokens.values(), expected) << "in parts";
  }
}

TEST_F(GpuVocabulary, VerifyResultsAreTheHosts) {
  Rows rows;
  rows.transforms.assign(kRows, {0.8});
  const auto target_distributions = rows.distributions_on_host(rows.logits),
             draft_distributions = rows.distributions_on_host(rows.draft);
  const std::vector<std::int32_t> parents = {-1, 0, 1, 2};
  std::vector<std::int32_t> tokens;
  for (std::size_t node = 0; node < parents.size(); ++node) tokens.push_back(draft_distributions[node].best);
  std::vector<ProposalRows> proposals;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    proposals.push_back({.n_nodes = 4, .coupled = seed % 2 == 1, .first = {seed, 0, 3}});
  }
  std::vector<DeviceVerifyResult> expected(proposals.size());
  const auto drawn_from = [&](const float* logits, const RowDistribution* distributions) {
    std::vector<DraftDistribution> out;
    for (std::size_t node = 0; node < parents.size(); ++node) {
      out.push_back({.logits = logits + node * kVocab, .distribution = distributions + node});
    }
    return out;
  };
  const auto q = drawn_from(rows.draft.data(), draft_distributions.data());
  Accept job{proposals.data(), tokens.data(),      parents.data(), q.data(),
             kVocab,           rows.logits.data(), kVocab,         target_distributions.data(),
             nullptr,          expected.data()};
  const auto n = static_cast<int>(proposals.size());
  const auto shared = std::make_unique<AcceptShared>();
  run_on_host<kVocabularyThreads>({n}, [&](const VocabularyBlock& block) { accept_proposal(block, job, *shared); });
  const DeviceArray<ProposalRows> device_proposals(proposals);
  const DeviceArray<std::int32_t> device_tokens(tokens), device_parents(parents);
  const DeviceArray<float> logits(rows.logits), draft(rows.draft);
  const DeviceArray<RowDistribution> device_target(target_distributions), device_draft(draft_distributions);
  const DeviceArray<DraftDistribution> device_q(drawn_from(draft.get(), device_draft.get()));
  const DeviceArray<DeviceVerifyResult> results{std::vector<DeviceVerifyResult>(proposals.size())};
  job = {device_proposals.get(),
         device_tokens.get(),
         device_parents.get(),
         device_q.get(),
         kVocab,
         logits.get(),
         kVocab,
         device_target.get(),
         nullptr,
         results.get()};
  enqueue(job, n, kStream);
  const auto got = results.values();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i].n_accepted, expected[i].n_accepted) << i;
    EXPECT_EQ(got[i].added_token, expected[i].added_token) << i;
    EXPECT_EQ(got[i].rejected_one, expected[i].rejected_one) << i;
  }
}

TEST_F(GpuVocabulary, ObservationsAndLossesAreTheHosts) {
  const Rows rows;
  constexpr std::int32_t kKept = 32;
  std::vector<std::int32_t> ids(kRows * kKept);
  std::vector<float> logprobs(ids.size()), tails(kRows), grad(rows.draft.size(), 1e9F);
  std::vector<double> losses(kRows);
  Observe observe{rows.logits.data(), kVocab, kVocab, kKept, ids.data(), logprobs.data(), tails.data()};
  const auto shared = std::make_unique<ObserveShared>();
  run_on_host<kVocabularyThreads>({kRows}, [&](const VocabularyBlock& block) { observe_row(block, observe, *shared); });
  FusedLoss loss;
  loss.options = {LossKind::kJsd, 0.4, 0.9};
  loss.logits = rows.draft.data();
  loss.stride = loss.vocab = kVocab;
  loss.top_k = kKept;
  loss.ids = ids.data();
  loss.logprobs = logprobs.data();
  loss.log_tail = tails.data();
  loss.losses = losses.data();
  loss.grad = grad.data();
  const auto loss_shared = std::make_unique<LossShared>();
  run_on_host<kVocabularyThreads>({kRows},
                                  [&](const VocabularyBlock& block) { fused_loss(block, loss, *loss_shared); });

  const DeviceArray<float> logits(rows.logits), draft(rows.draft), device_logprobs(std::vector<float>(ids.size())),
      device_tails{std::vector<float>(kRows)}, device_grad(std::vector<float>(grad.size(), 1e9F));
  const DeviceArray<std::int32_t> device_ids(std::vector<std::int32_t>(ids.size(), -1));
  const DeviceArray<double> device_losses{std::vector<double>(kRows)};
  observe = {logits.get(), kVocab, kVocab, kKept, device_ids.get(), device_logprobs.get(), device_tails.get()};
  enqueue(observe, kRows, kStream);
  loss.logits = draft.get();
  loss.ids = device_ids.get();
  loss.logprobs = device_logprobs.get();
  loss.log_tail = device_tails.get();
  loss.losses = device_losses.get();
  loss.grad = device_grad.get();
  enqueue(loss, kRows, kStream);
  EXPECT_EQ(device_ids.values(), ids);
  const auto got_logprobs = device_logprobs.values(), got_grad = device_grad.values();
  const auto got_losses = device_losses.values();
  for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_NEAR(got_logprobs[i], logprobs[i], 1e-6);
  for (std::size_t row = 0; row < kRows; ++row) EXPECT_NEAR(got_losses[row], losses[row], 1e-6 * losses[row]);
  for (std::size_t i = 0; i < grad.size(); ++i) ASSERT_NEAR(got_grad[i], grad[i], 1e-7 + 1e-5 * std::abs(grad[i]));
}

}  // namespace
}  // namespace slip::kernels::cuda
