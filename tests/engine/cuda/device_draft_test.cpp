// SPDX-License-Identifier: Apache-2.0
// The draft loop of a device, emulated on the host, against single passes whose logits go through the CPU's transform
// and draws.
#include "tests/engine/cuda/device_bench.h"
#include "tests/engine/cuda/draft_loops.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/tiny_draft.h"

namespace slip {
namespace {

using kernels::cuda::DrawRule;
using testing::Asked;
using testing::DeviceBench;
using testing::different_ones;
using testing::Drawn;
using testing::kDraftVocab;
using testing::one_by_one;
using testing::prompt_of;
using testing::tiny_draft;
using testing::tiny_draft_config;
using testing::tokens_of;

struct Loop : testing::Loop<kernels::cuda::HostQueue> {
  explicit Loop(const ModelWeights& shape, std::int32_t max_chains = 6)
      : testing::Loop<kernels::cuda::HostQueue>(std::make_shared<kernels::cuda::HostQueue>(), shape, max_chains) {}
};

TEST(DeviceDraft, EveryChainIsWhatPassesOneByOneDraw) {
  const auto weights = tiny_draft(tiny_draft_config(kDraftVocab), 1);
  Loop loop(*weights);
  loop.load(*weights, 0);
  const auto asked = different_ones();
  loop.draw(0, asked);
  EXPECT_EQ(loop.queue->n_captures(), 1);
  EXPECT_EQ(loop.queue->n_replays(), 1);
  EXPECT_EQ(loop.queue->n_puts(), 0) << "the whole loop is one graph";
  for (std::size_t i = 0; i < asked.size(); ++i) {
    DeviceBench alone(*weights);
    const Drawn expected = one_by_one(alone.worker, asked[i]);
    EXPECT_EQ(tokens_of(loop.draft, i, asked[i].depth), expected.tokens) << "chain " << i;
    for (std::int32_t depth = 0; depth < asked[i].depth; ++depth) {
      const auto at = static_cast<std::size_t>(depth);
      EXPECT_TRUE(loop.draft.is_finite(i, depth));
      EXPECT_NEAR(loop.draft.logprob(i, depth), expected.logprobs[at], 1e-5);
      Distribution distribution;
      loop.draft.distribution(i, depth, distribution);
      EXPECT_EQ(distribution.ids, expected.distributions[at].ids) << "chain " << i << " depth " << depth;
      for (const std::int32_t id : distribution.ids) {
        ASSERT_NEAR(distribution.probability(id), expected.distributions[at].probability(id), 1e-9);
      }
    }
  }
}

// Tokens do not depend on the other chains of the loop, on its capture, or on what was read before.
TEST(DeviceDraft, ReplaysOnOtherSequencesAndLengths) {
  const auto weights = tiny_draft(tiny_draft_config(kDraftVocab), 1);
  Loop loop(*weights);
  loop.load(*weights, 0);
  const auto asked = different_ones();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto changed = asked[i];
    changed.depth = 5;
    loop.draw(0, {changed});
    DeviceBench alone(*weights);
    EXPECT_EQ(tokens_of(loop.draft, 0, 5), one_by_one(alone.worker, changed).tokens) << i;
  }
  EXPECT_EQ(loop.queue->n_captures(), 2) << "one with logits processors";
  EXPECT_EQ(loop.queue->n_replays(), 6);
}

TEST(DeviceDraft, ASwapNeedsNoCapture) {
  const auto first = tiny_draft(tiny_draft_config(kDraftVocab), 1),
             second = tiny_draft(tiny_draft_config(kDraftVocab), 2);
  Loop loop(*first);
  const auto asked = different_ones();
  const auto expect = [&](const ModelWeights& weights, int weight_slot) {
    loop.draw(weight_slot, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      DeviceBench alone(weights);
      EXPECT_EQ(tokens_of(loop.draft, i, asked[i].depth), one_by_one(alone.worker, asked[i]).tokens) << "chain " << i;
    }
  };
  loop.load(*first, 0);
  expect(*first, 0);
  const auto before = tokens_of(loop.draft, 1, 5);
  loop.load(*second, 1);
  expect(*second, 1);
  EXPECT_NE(tokens_of(loop.draft, 1, 5), before);
  expect(*first, 0);  // sequences that have not caught up go on with the older one
  const auto third = tiny_draft(tiny_draft_config(kDraftVocab), 3);
  loop.load(*third, 0);
  expect(*third, 0);
  EXPECT_EQ(loop.queue->n_captures(), 1);
}

// Chains of several drafts in one loop: each draws the same tokens as alone. Drafts that swap places, or are replaced,
// need no new capture.
TEST(DeviceDraft, DraftsShareALoop) {
  std::vector<std::shared_ptr<const ModelWeights>> drafts;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) drafts.push_back(tiny_draft(tiny_draft_config(kDraftVocab), seed));
  Loop loop(*drafts[0]);
  std::vector<int> draft_of{0, 1, 2};  // each weight slot's
  for (int weight_slot = 0; weight_slot < 3; ++weight_slot)
    loop.load(*drafts[static_cast<std::size_t>(weight_slot)], weight_slot);
  const auto asked = different_ones();
  const auto expect = [&](const std::vector<int>& weight_slots) {
    loop.draw(weight_slots, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const int draft = draft_of[static_cast<std::size_t>(weight_slots[i])];
      DeviceBench alone(*drafts[static_cast<std::size_t>(draft)]);
      EXPECT_EQ(tokens_of(loop.draft, i, asked[i].depth), one_by_one(alone.worker, asked[i]).tokens)
          << "chain " << i << " of draft " << draft;
    }
  };
  expect({0, 1, 2, 0, 1, 2});
  EXPECT_EQ(loop.queue->n_captures(), 1);
  EXPECT_EQ(loop.queue->n_puts(), 0);
  expect({1, 2, 0, 1, 2, 0});
  loop.load(*drafts[3], 1);
  draft_of[1] = 3;
  expect({2, 0, 1, 2, 0, 1});
  expect({1, 0, 2, 2, 2, 2});  // shares of other sizes that fill as many tiles
  EXPECT_EQ(loop.queue->n_captures(), 1);
  EXPECT_EQ(loop.queue->n_replays(), 4);
  expect({2, 2, 0, 1, 0, 1});
  EXPECT_EQ(loop.queue->n_captures(), 2) << "half as many";
}

// Tokens read ahead in chunks give the same result as tokens that the loop reads. The other weight slot's weights read
// the same text into their own cache.
TEST(DeviceDraft, ReadsAheadWithEitherWeightSlot) {
  const auto first = tiny_draft(tiny_draft_config(kDraftVocab), 1),
             second = tiny_draft(tiny_draft_config(kDraftVocab), 2);
  Loop loop(*first);
  loop.load(*first, 0);
  loop.load(*second, 1);
  const Asked asked{prompt_of(90, 3), 4, {.temperature = 1, .seed = 9}, true};
  const std::span<const std::int32_t> text = asked.prompt;
  for (const int weight_slot : {1, 0}) {
    PageTable pages(loop.draft.cache());
    ASSERT_TRUE(pages.reserve(94));
    loop.draft.read(weight_slot, std::vector<DraftSlice>{{{text.first(40), &pages, 0}}});
    loop.draft.read(weight_slot, std::vector<DraftSlice>{{{text.subspan(40, 48), &pages, 40}}});
    DeviceDraftChain chain;
    chain.weight_slot = weight_slot;
    chain.pages = &pages;
    chain.n_cached = 88;
    chain.tokens = text.subspan(88);
    chain.depth = 4;
    chain.rule = DrawRule::kCoupled;
    chain.first = asked.address(0);
    loop.draft.draw({&chain, 1});
    DeviceBench alone(weight_slot == 0 ? *first : *second);
    EXPECT_EQ(tokens_of(loop.draft, 0, 4), one_by_one(alone.worker, asked).tokens) << "weight slot " << weight_slot;
  }
}

// More chains than a captured loop supports are enqueued job by job, with the same tokens.
TEST(DeviceDraft, ALoopThatIsTooWideToBeCapturedDrawsTheSame) {
  const auto weights = tiny_draft(tiny_draft_config(kDraftVocab), 1);
  Loop narrow(*weights), wide(*weights, 70);
  narrow.load(*weights, 0);
  wide.load(*weights, 0);
  std::vector<Asked> asked(66, different_ones()[1]);
  for (std::size_t i = 0; i < asked.size(); ++i) asked[i].prompt = {static_cast<std::int32_t>(i)};
  wide.draw(0, asked);
  EXPECT_EQ(wide.queue->n_captures(), 0);
  for (const std::size_t i : {0, 33, 65}) {
    narrow.draw(0, {asked[i]});
    EXPECT_EQ(tokens_of(wide.draft, i, 5), tokens_of(narrow.draft, 0, 5));
  }
}

TEST(DeviceDraft, NumbersThatAreNotFiniteAreTold) {
  const auto weights = std::const_pointer_cast<ModelWeights>(tiny_draft(tiny_draft_config(kDraftVocab), 1));
  weights->final_norm[3] = NAN;
  Loop loop(*weights);
  loop.load(*weights, 0);
  loop.draw(0, different_ones());
  EXPECT_FALSE(loop.draft.is_finite(0, 0));
  EXPECT_FALSE(loop.draft.is_finite(1, 4));
}

// If no distribution is requested, only tokens, log probabilities and a few numbers per distribution are copied to the
// host.
TEST(DeviceDraft, LogitsStayOnTheDevice) {
  const auto weights = tiny_draft(tiny_draft_config(kDraftVocab), 1);
  Loop loop(*weights);
  loop.load(*weights, 0);
  loop.draw(0, different_ones());
  EXPECT_EQ(loop.queue->bytes_out(), 5U * 8U * (4U + 4U + sizeof(kernels::cuda::RowDistribution)));
}

// The embedded draft's greedy chain is that of the CPU's pass.
TEST(DeviceDraft, TheEmbeddedDraftRunsAheadAsOnTheCpu) {
  const auto folder = testing::embedded_target_folder().parent_path() / "draft";
  const auto weights = ModelWeights::load(folder, Dtype::kBFloat16);
  kernels::ThreadPool pool(1);
  LocalWorker cpu(weights, 64, 1, 16, pool);
  Loop loop(*weights);
  loop.load(*weights, 0);
  const Asked asked{prompt_of(12, 17), 4, {.temperature = 0, .seed = 1}, true};
  loop.draw(0, {asked});
  EXPECT_EQ(tokens_of(loop.draft, 0, 4), testing::plain_greedy(cpu, asked.prompt, 4));
}

}  // namespace
}  // namespace slip
