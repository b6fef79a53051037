// SPDX-License-Identifier: Apache-2.0
// Both acceptance rules of the device code, run on the host, against the CPU's results on the same proposals.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "engine/speculative/acceptance.h"
#include "kernels/cuda/sample.cuh"
#include "tests/engine/speculative/accept_given.h"
#include "tests/kernels/cuda/host_grid.h"

namespace slip {
namespace {

using namespace kernels::cuda;  // NOLINT: the tested names are its

constexpr std::int32_t kVocab = 700;

double draw(std::uint64_t seed, std::uint32_t row, std::uint32_t token) {
  return uniform({seed, row, 0}, RandomPurpose::kDraft, token);
}

// A small tree, or a chain, with target rows and draft rows of which the draft's roughly agree.
struct Trial {
  Trial(std::uint64_t trial_seed, std::vector<std::int32_t> parents_of, const SamplingParams& sampling,
        DrawMethod draw_method, bool siblings_differ = false)
      : seed(trial_seed), params(sampling), without_replacement(siblings_differ) {
    proposal.parents = std::move(parents_of);
    proposal.draw_method = draw_method;
    const auto n = static_cast<std::uint32_t>(proposal.parents.size());
    for (std::uint32_t row = 0; row <= n; ++row) {
      for (std::uint32_t token = 0; token < kVocab; ++token) {
        target.push_back(static_cast<float>(7 * draw(seed, row, token) - (token >= 30 ? 6 : 0)));
        draft.push_back(target.back() + static_cast<float>(2 * draw(seed + 1, row, token)));
      }
    }
    for (std::uint32_t row = 0; row <= n; ++row) {
      p.push_back(distribution_of_row(target, row));
      q.push_back(distribution_of_row(draft, row));
    }
    for (std::uint32_t node = 0; node < n; ++node) {
      const auto row = static_cast<std::size_t>(proposal.parents[node] + 1);
      proposal.q.push_back(without_replacement ? without_earlier_siblings(q[row], node) : q[row]);
      const RandomAddress address{seed + 2, node, 0};
      proposal.tokens.push_back(draw_method == DrawMethod::kDeterministic
                                    ? q[row].ids[node % q[row].ids.size()]
                                    : sample_inverse_cdf(proposal.q[node], uniform(address, RandomPurpose::kDraft)));
    }
  }
  Distribution without_earlier_siblings(const Distribution& of, std::uint32_t node) const {
    Distribution out;
    double total = 0;
    for (std::size_t i = 0; i < of.ids.size(); ++i) {
      bool is_earlier_sibling = false;
      for (std::uint32_t earlier = 0; earlier < node; ++earlier) {
        is_earlier_sibling |=
            proposal.parents[earlier] == proposal.parents[node] && proposal.tokens[earlier] == of.ids[i];
      }
      if (is_earlier_sibling) continue;
      out.ids.push_back(of.ids[i]);
      out.probabilities.push_back(of.probabilities[i]);
      total += of.probabilities[i];
    }
    for (double& probability : out.probabilities) probability /= total;
    return out;
  }
  Distribution distribution_of_row(const std::vector<float>& logits, std::uint32_t row) const {
    Distribution out;
    transform_logits(std::span(logits).subspan(row * std::size_t{kVocab}, kVocab), params, {}, out);
    return out;
  }
  std::vector<RowDistribution> distributions(const std::vector<float>& logits) const {
    const auto n = static_cast<int>(p.size());
    const auto shared = std::make_unique<DistributionShared>();
    const std::vector<Transform> transforms(p.size(), {params.temperature, params.min_p, params.top_p, params.top_k});
    std::vector<RowDistribution> out(p.size());
    const MakeDistributions job{logits.data(), kVocab, kVocab, transforms.data(), out.data()};
    run_on_host<kVocabularyThreads>({n}, [&](const VocabularyBlock& block) { make_distribution(block, job, *shared); });
    return out;
  }
  // Of every target row, at the address of its depth.
  std::vector<RowPart> gumbel_parts(const std::vector<RowDistribution>& target_distributions) const {
    std::vector<RandomAddress> addresses(1, first);
    for (const std::int32_t parent : proposal.parents) {
      addresses.push_back(addresses[static_cast<std::size_t>(parent + 1)]);
      ++addresses.back().output_index;
    }
    std::vector<RowPart> parts(p.size() * kRowParts);
    const GumbelParts job{target.data(), kVocab, kVocab, target_distributions.data(), addresses.data(), parts.data()};
    const auto shared = std::make_unique<DistributionShared>();
    const Grid grid{static_cast<int>(p.size()), kRowParts};
    run_on_host<kVocabularyThreads>(grid, [&](const VocabularyBlock& block) { scan_gumbel(block, job, *shared); });
    return parts;
  }
  std::vector<DraftDistribution> rows_of_logits(const std::vector<RowDistribution>& draft_distributions) const {
    std::vector<DraftDistribution> out;
    for (const std::int32_t parent : proposal.parents) {
      const auto row = static_cast<std::size_t>(parent + 1);
      out.push_back({.logits = draft.data() + row * kVocab, .distribution = &draft_distributions[row]});
    }
    return out;
  }
  std::vector<DraftDistribution> tables() const {
    std::vector<DraftDistribution> out;
    for (const Distribution& of : proposal.q) {
      const auto n = static_cast<std::int32_t>(of.ids.size());
      out.push_back({.ids = of.ids.data(), .probabilities = of.probabilities.data(), .n = n});
    }
    return out;
  }
  DeviceVerifyResult on_host(AcceptanceRule rule, bool with_parts = false) const {
    const auto target_distributions = distributions(target), draft_distributions = distributions(draft);
    const ProposalRows rows{.n_nodes = static_cast<std::int32_t>(proposal.size()),
                            .coupled = rule == AcceptanceRule::kCoupled,
                            .deterministic = proposal.draw_method == DrawMethod::kDeterministic,
                            .without_replacement = without_replacement,
                            .first = first};
    DeviceVerifyResult result;
    Accept job;
    job.proposals = &rows;
    job.tokens = proposal.tokens.data();
    job.parents = proposal.parents.data();
    const auto distributions_drawn_from = by_table ? tables() : rows_of_logits(draft_distributions);
    job.q = distributions_drawn_from.data();
    job.vocab = kVocab;
    job.target_logits = target.data();
    job.target_stride = kVocab;
    job.target_distributions = target_distributions.data();
    job.results = &result;
    const auto parts = gumbel_parts(target_distributions);
    job.target_parts = with_parts ? parts.data() : nullptr;
    const auto shared = std::make_unique<AcceptShared>();
    run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { accept_proposal(block, job, *shared); });
    return result;
  }
  void expect_the_cpus_result(AcceptanceRule rule) const {
    const VerifyResult expected = testing::accept_given(proposal, p, rule, first);
    for (const bool with_parts : {false, rule == AcceptanceRule::kCoupled}) {
      const DeviceVerifyResult result = on_host(rule, with_parts);
      EXPECT_EQ(std::vector(result.accepted, result.accepted + result.n_accepted), expected.accepted) << seed;
      EXPECT_EQ(result.added_token, expected.added_token) << seed;
      EXPECT_EQ(result.rejected_one != 0, expected.rejected_one) << seed;
    }
  }

  std::uint64_t seed;
  SamplingParams params;
  bool without_replacement, by_table = false;
  RandomAddress first{91, 1, 5};
  Proposal proposal;
  std::vector<float> target, draft;
  std::vector<Distribution> p, q;
};

const std::vector<std::int32_t> kChain = {-1, 0, 1, 2};
const std::vector<std::int32_t> kTree = {-1, -1, -1, 0, 0, 1, 3, 3, 3};

TEST(DeviceAcceptanceTest, RejectionIsTheCpusOnChainsAndTrees) {
  int n_accepted = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const SamplingParams params{.temperature = 0.8F, .top_p = seed % 2 == 0 ? 1.0F : 0.95F};
    for (const auto& parents : {kChain, kTree}) {
      for (const DrawMethod draw_method : {DrawMethod::kSampled, DrawMethod::kDeterministic}) {
        const Trial trial(seed, parents, params, draw_method);
        trial.expect_the_cpus_result(AcceptanceRule::kRejection);
        n_accepted += trial.on_host(AcceptanceRule::kRejection).n_accepted;
      }
    }
  }
  EXPECT_GT(n_accepted, 20);  // otherwise nothing but first refusals was compared
}

TEST(DeviceAcceptanceTest, SiblingsDrawnWithoutReplacementAreTestedAsTheCpuDoes) {
  const std::vector<std::int32_t> bushy = {-1, -1, -1, -1, -1, -1, 1, 1, 1, 1};
  std::vector<int> accepted_sibling(6, 0);
  int n_differ = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    // With few likely tokens earlier siblings take most of q with them.
    const SamplingParams params{.temperature = 0.8F, .top_p = seed % 2 == 0 ? 1.0F : 0.98F};
    Trial trial(seed, bushy, params, DrawMethod::kSampled, /*siblings_differ=*/true);
    trial.first.seed = seed;
    trial.expect_the_cpus_result(AcceptanceRule::kRejection);
    const DeviceVerifyResult result = trial.on_host(AcceptanceRule::kRejection);
    if (result.n_accepted > 0) ++accepted_sibling[static_cast<std::size_t>(result.accepted[0])];
    trial.without_replacement = false;
    const DeviceVerifyResult other = trial.on_host(AcceptanceRule::kRejection);
    n_differ += other.added_token != result.added_token || other.n_accepted != result.n_accepted ? 1 : 0;
  }
  EXPECT_GT(accepted_sibling[1] + accepted_sibling[2], 5) << "later siblings were tested, and some accepted";
  EXPECT_GT(n_differ, 0) << "taking them for drawn with replacement would have been noticed";
}

// What the host drew: each sibling's distribution is its own, earlier siblings' tokens included.
TEST(DeviceAcceptanceTest, DistributionsInTablesAreVerifiedAsTheCpuDoes) {
  int n_accepted = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const SamplingParams params{.temperature = 0.8F, .top_p = seed % 2 == 0 ? 1.0F : 0.95F};
    for (const bool siblings_differ : {false, true}) {
      Trial trial(seed, kTree, params, DrawMethod::kSampled, siblings_differ);
      trial.by_table = true;
      trial.without_replacement = false;
      trial.expect_the_cpus_result(AcceptanceRule::kRejection);
      n_accepted += trial.on_host(AcceptanceRule::kRejection).n_accepted;
    }
  }
  EXPECT_GT(n_accepted, 10);
}

TEST(DeviceAcceptanceTest, CoupledIsTheCpus) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Trial trial(seed, kTree, {.temperature = 0.7F}, DrawMethod::kSampled);
    trial.proposal.tokens[1] = sample_gumbel(trial.p[0], trial.first);  // so that there is something to accept
    trial.expect_the_cpus_result(AcceptanceRule::kCoupled);
    EXPECT_GE(trial.on_host(AcceptanceRule::kCoupled).n_accepted, 1);
  }
}

TEST(DeviceAcceptanceTest, GreedyIsTheCpus) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Trial trial(seed, kChain, {.temperature = 0}, DrawMethod::kDeterministic);
    trial.expect_the_cpus_result(AcceptanceRule::kRejection);
    trial.expect_the_cpus_result(AcceptanceRule::kCoupled);
  }
}

TEST(DeviceAcceptanceTest, NothingProposedIsOneTokenOfTheTargets) {
  const Trial trial(3, {}, {}, DrawMethod::kSampled);
  trial.expect_the_cpus_result(AcceptanceRule::kRejection);
  trial.expect_the_cpus_result(AcceptanceRule::kCoupled);
}

TEST(DeviceAcceptanceTest, ABrokenRowIsReported) {
  Trial trial(4, kChain, {}, DrawMethod::kSampled);
  trial.target[5] = std::nanf("");
  EXPECT_EQ(trial.on_host(AcceptanceRule::kCoupled).state, DistributionState::kNotANumber);
}

}  // namespace
}  // namespace slip
