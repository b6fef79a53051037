// SPDX-License-Identifier: Apache-2.0
// The device's forward pass, with its kernels' bodies run on the host: as close to float32 as the CPU's bfloat16 pass,
// for every architecture; a row's bits do not depend on the rest of its pass.
#include "engine/cuda/device_worker.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/common/patience.h"
#include "tests/engine/cuda/device_bench.h"
#include "tests/engine/models/batch_step.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/formula_model.h"

namespace slip {
namespace {

constexpr std::int32_t kPage = PagePool::kPageTokens;

using testing::BatchStep;
using testing::DeviceBench;
using testing::embedded_target;
using testing::Part;
using testing::PlainSequence;
using testing::random_tokens;
using testing::same_bits;

// The root mean square of the differences, relative to that of `a`; infinite where `b` is not finite. A largest
// difference would be one logit's luck.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) return INFINITY;
    const double difference = double{a[i]} - b[i];
    squares += double{a[i]} * a[i];
    differences += difference * difference;
  }
  return std::sqrt(differences / squares);
}

std::vector<float> logits_of(Worker& worker, const std::vector<std::int32_t>& prompt) {
  PlainSequence sequence(worker);
  return sequence.feed_at_once(prompt, static_cast<std::int32_t>(prompt.size()));
}

// How far bfloat16 passes are from the float32 one: the CPU's, and a device's.
struct Rounding {
  double cpu, device;
  // Both round weights, activations, keys and values; only the order of sums differs, and on CPUs with bfloat16
  // products the attention.
  bool is_alike() const { return device <= 1.25 * cpu; }
};

Rounding rounding_of(const nlohmann::json& config, const ModelWeights& on_device) {
  kernels::ThreadPool pool(1);
  const auto exact_weights = testing::formula_weights(config, Dtype::kFloat32);
  LocalWorker exact(exact_weights, 64, 64, 8, pool);
  LocalWorker rounded(testing::formula_weights(config, Dtype::kBFloat16), 64, 64, 8, pool);
  DeviceBench device(on_device);
  const auto prompt = random_tokens(45, 1, exact_weights->config.vocab_size);
  const auto expected = logits_of(exact, prompt);
  return {relative_difference(expected, logits_of(rounded, prompt)),
          relative_difference(expected, logits_of(device.worker, prompt))};
}

class DeviceArchitectures : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::int32_t> tokens(int n, unsigned seed) { return random_tokens(n, seed, 96); }
  static const nlohmann::json& config() { return testing::architecture_golden(GetParam())["config"]; }
  static std::shared_ptr<const ModelWeights> weights() { return testing::formula_weights(config(), Dtype::kBFloat16); }
};
using DeviceArchitecturesNegative = DeviceArchitectures;

constexpr auto kName = [](const auto& param) { return param.param; };
// Sanitizer builds check only some of them.
std::vector<std::string> architectures() {
  std::vector<std::string> names;
  const auto all = testing::architecture_names();
  for (std::size_t i = 0; i < all.size(); i += testing::kPatience == 1 ? 1 : 5) names.push_back(all[i]);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Models, DeviceArchitectures, ::testing::ValuesIn(architectures()), kName);
INSTANTIATE_TEST_SUITE_P(Models, DeviceArchitecturesNegative, ::testing::Values("llama_grouped", "qwen3"), kName);

TEST_P(DeviceArchitectures, LogitsAreAsNearToFloat32AsTheCpus) {
  const Rounding found = rounding_of(config(), *weights());
  EXPECT_TRUE(found.is_alike()) << "device " << found.device << ", CPU " << found.cpu;
}

TEST_P(DeviceArchitecturesNegative, ASmallFaultIsSeen) {
  const auto wrong = std::const_pointer_cast<ModelWeights>(weights());
  for (float& value : wrong->layers.back().ffn_norm) value *= 1.02F;
  EXPECT_FALSE(rounding_of(config(), *wrong).is_alike());
}

// Chunks of 65 rows and more are not captured, smaller ones are, filled up to 8, 16, 32 or 64 rows.
TEST_P(DeviceArchitectures, AnyChunkingOfAPromptGivesTheSameLogits) {
  DeviceBench device(*weights());
  const auto prompt = tokens(72, 1);
  PlainSequence whole(device.worker);
  const auto expected = whole.feed(prompt, 128);
  EXPECT_EQ(device.queue->n_captures(), 0);
  for (const std::size_t chunk : {1, 7, 33}) {
    PlainSequence chunked(device.worker);
    chunked.feed(std::span(prompt).first(66), chunk == 1 ? 66 : chunk);
    EXPECT_TRUE(same_bits(chunked.feed(std::span(prompt).subspan(66), chunk).data(), expected.data(), expected.size()))
        << chunk;
  }
  EXPECT_LE(device.queue->n_captures(), 2);
  EXPECT_GT(device.queue->n_replays(), 15);
}

std::vector<std::int32_t> path_to(const Part& part, std::size_t row) {
  std::vector<std::int32_t> path;
  for (auto node = static_cast<std::int32_t>(row); node >= 0;
       node = part.parents.empty() ? node - 1 : part.parents[static_cast<std::size_t>(node)]) {
    path.insert(path.begin(), part.tokens[static_cast<std::size_t>(node)]);
  }
  return path;
}

// A long chain, a tree of two branches that interleave, a bushy one, and one row; windows shorter and longer than they.
TEST_P(DeviceArchitectures, VerifiedChainsAndTreesEqualDecodingOneByOne) {
  DeviceBench device(*weights());
  const std::vector<std::vector<std::int32_t>> prompts{tokens(3, 3), tokens(31, 4), tokens(42, 5), tokens(16, 9)};
  std::vector<std::int32_t> comb(18);
  for (std::size_t i = 0; i < comb.size(); ++i) comb[i] = std::max(-1, static_cast<std::int32_t>(i) - 2);
  std::vector<PlainSequence> pasts;
  for (const auto& prompt : prompts) {
    pasts.emplace_back(device.worker);
    pasts.back().feed(prompt, 128);
  }
  const std::vector<Part> parts{{&pasts[0], tokens(18, 6), {}},
                                {&pasts[1], tokens(18, 7), comb},
                                {&pasts[2], tokens(6, 8), {-1, 0, 1, 1, 0, -1}},
                                {&pasts[3], tokens(1, 10), {}}};
  BatchStep step(parts);
  step.run(device.worker);
  std::size_t row = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    for (std::size_t i = 0; i < parts[s].tokens.size(); ++i, ++row) {
      if (i % 6 != 3 && i + 1 != parts[s].tokens.size()) continue;
      PlainSequence alone(device.worker);
      alone.feed(prompts[s], 128);
      const auto path = path_to(parts[s], i);
      alone.feed(std::span(path).first(path.size() - 1), 5);
      const auto& expected = alone.feed(std::span(path).last(1), 1);
      ASSERT_TRUE(same_bits(step.logits(row), expected.data(), expected.size())) << "sequence " << s << " row " << i;
    }
  }
}

// A tree's accepted node moves to the slot of a committed token; later rows see it there.
TEST_P(DeviceArchitectures, AMovedSlotIsTheSlot) {
  DeviceBench device(*weights());
  const auto prompt = tokens(20, 3), wrong = tokens(1, 4), right = tokens(2, 5);
  PlainSequence past(device.worker), clean(device.worker);
  past.feed(prompt, 64);
  BatchStep step({{&past, {wrong[0], right[0]}, {-1, -1}}});
  step.run(device.worker);
  const std::int32_t* pages = past.pages().pages();
  device.worker.cache().copy_slot(pages[21 / kPage], 21 % kPage, pages[20 / kPage], 20 % kPage);
  BatchStep next({{&past, {right[0], right[1]}, {}}});  // the first is stored again, with the bits that are there
  next.run(device.worker);
  clean.feed(prompt, 64);
  const auto expected = clean.feed(right, 1);
  EXPECT_TRUE(same_bits(next.logits(1), expected.data(), expected.size()));
}

// Sizes that are not multiples of a tile of the matrix instruction: gates and ups, depths, outputs, words.
TEST(DeviceWorker, SizesThatFillNoTileAreFilledUpWithNothing) {
  for (const char* name : {"llama_both_biases", "llama_one_key_head_tied"}) {
    auto config = testing::architecture_golden(name)["config"];
    config["hidden_size"] = 42;
    config["intermediate_size"] = 37;
    config["vocab_size"] = 91;
    const Rounding found = rounding_of(config, *testing::formula_weights(config, Dtype::kBFloat16));
    EXPECT_TRUE(found.is_alike()) << name << ": device " << found.device << ", CPU " << found.cpu;
  }
}

// Beyond 256 slots a row's attention is split. Captured steps of few rows process each split in its own block, others
// all in one block, with the same bits.
TEST(DeviceWorker, SplitsOfALongContextDoNotShow) {
  auto config = testing::architecture_golden("llama_grouped")["config"];
  config["max_position_embeddings"] = 1024;
  DeviceBench device(*testing::formula_weights(config, Dtype::kBFloat16));
  const auto text = random_tokens(340, 1, 96);
  PlainSequence whole(device.worker), stepped(device.worker);
  whole.feed(text, 100);
  stepped.feed(std::span(text).first(322), 91);
  stepped.feed(std::span(text).subspan(322), 9);
  EXPECT_GT(device.queue->n_replays(), 0);
  EXPECT_TRUE(same_bits(stepped.logits().data(), whole.logits().data(), whole.logits().size()));
}

TEST(DeviceWorker, TapsHoldTheResidualStreamAndTheFinalHiddenStateIsItsNorm) {
  const auto weights =
      testing::formula_weights(testing::architecture_golden("llama_both_biases")["config"], Dtype::kBFloat16);
  DeviceBench device(*weights);
  PageTable pages(device.worker.cache());
  ASSERT_TRUE(pages.reserve(3));
  const std::vector<std::int32_t> tokens{7, 9, 12}, positions{0, 1, 2}, row_begin{0, 3}, logit_rows{2};
  KvView kv;
  kv.pages = &pages;
  StepInput input;
  input.tokens = tokens;
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = {&kv, 1};
  input.logit_rows = logit_rows;
  input.taps.layers = 3;
  constexpr std::size_t kStride = 50;  // rows that lie apart
  std::vector<float> first(3 * kStride), last(3 * kStride), hidden(48), logits(96), without(96);
  std::vector<TensorView> taps{TensorView::contiguous(first.data(), {3, 48}),
                               TensorView::contiguous(last.data(), {3, 48})};
  for (TensorView& tap : taps) tap.strides[0] = kStride;
  StepOutput output;
  output.final_hidden = TensorView::contiguous(hidden.data(), {1, 48});
  output.logits = TensorView::contiguous(logits.data(), {1, 96});
  output.taps = taps;
  device.worker.run(input, output);
  double squares = 0;
  for (std::size_t i = 0; i < 48; ++i) squares += double{last[2 * kStride + i]} * last[2 * kStride + i];
  for (std::size_t i = 0; i < 48; ++i) {
    const double expected =
        last[2 * kStride + i] / std::sqrt(squares / 48 + weights->config.rms_norm_eps) * weights->final_norm[i];
    EXPECT_NEAR(hidden[i], expected, 1e-5 * std::abs(expected));
  }
  EXPECT_FALSE(same_bits(first.data(), last.data(), first.size()));
  // The same step, captured: taps are what keeps a pass from it.
  EXPECT_EQ(device.queue->n_captures(), 0);
  input.taps = {};
  output.logits.data = without.data();
  device.worker.run(input, output);
  EXPECT_EQ(device.queue->n_captures(), 1);
  EXPECT_TRUE(same_bits(logits.data(), without.data(), logits.size()));
}

// Sinks and a window of the cache against a second cache that holds nothing else.
TEST(DeviceWorker, VisibleSlotsGiveTheBitsOfACacheThatHoldsNothingElse) {
  const auto weights = testing::formula_weights(testing::architecture_golden("qwen3")["config"], Dtype::kBFloat16);
  DeviceBench device(*weights);
  PlainSequence past(device.worker);
  past.feed(random_tokens(70, 3, 96), 64);
  PageTable compact(device.worker.cache());
  ASSERT_TRUE(compact.reserve(40));
  const std::vector<PageRange> visible{{0, 4}, {48, 70}};
  std::int32_t n = 0;
  for (const PageRange& range : visible) {
    for (std::int32_t slot = range.begin; slot < range.end; ++slot, ++n) {
      device.worker.cache().copy_slot(past.pages().pages()[slot / kPage], slot % kPage, compact.pages()[n / kPage],
                                      n % kPage);
    }
  }
  const auto step = [&](PageTable& pages, std::int32_t n_cached, std::span<const PageRange> ranges) {
    const std::vector<std::int32_t> tokens{5, 6, 7}, positions{70, 71, 72}, row_begin{0, 3}, logit_rows{0, 2};
    EXPECT_TRUE(pages.reserve(n_cached + 3));
    KvView kv;
    kv.pages = &pages;
    kv.n_cached = n_cached;
    kv.visible = ranges;
    StepInput input;
    input.tokens = tokens;
    input.positions = positions;
    input.row_begin = row_begin;
    input.kv = {&kv, 1};
    input.logit_rows = logit_rows;
    std::vector<float> logits(2 * 96);
    StepOutput output;
    output.logits = TensorView::contiguous(logits.data(), {2, 96});
    device.worker.run(input, output);
    return logits;
  };
  const auto expected = step(compact, n, {}), got = step(past.pages(), 70, visible), all = step(past.pages(), 70, {});
  EXPECT_TRUE(same_bits(got.data(), expected.data(), got.size()));
  EXPECT_FALSE(same_bits(got.data(), all.data(), got.size()));
}

// Each request lists all its pages, also shared ones: here five list 45 pages of a cache of 32. The process aborted.
TEST(DeviceWorker, SequencesThatSharePagesListMoreThanTheCacheHas) {
  auto config = testing::architecture_golden("llama_grouped")["config"];
  config["max_position_embeddings"] = 512;
  const auto weights = testing::formula_weights(config, Dtype::kBFloat16);
  DeviceWorker worker(std::make_shared<kernels::cuda::HostQueue>(), *weights, 128, 16, /*n_pages=*/32);
  PlainSequence prefix(worker);
  prefix.feed(random_tokens(8 * kPage, 1, 96), 128);
  const auto after_prefix = [&] {
    PlainSequence sequence(worker);
    for (std::size_t i = 0; i < 8; ++i) sequence.pages().append_shared(prefix.pages().pages()[i]);
    sequence.advance(8 * kPage);
    return sequence;
  };
  std::vector<PlainSequence> pasts;
  for (int i = 0; i < 5; ++i) pasts.push_back(after_prefix());
  const auto tokens = random_tokens(10, 2, 96);
  std::vector<Part> parts;
  for (std::size_t s = 0; s < pasts.size(); ++s) {
    parts.push_back({&pasts[s], {tokens[2 * s], tokens[2 * s + 1]}, {-1, -1}});
  }
  BatchStep step(parts);
  step.run(worker);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    PlainSequence alone = after_prefix();
    const auto& expected = alone.feed({&tokens[row], 1}, 1);
    EXPECT_TRUE(same_bits(step.logits(row), expected.data(), expected.size())) << row;
  }
}

// The embedded model: the greedy answer is the CPU's, whatever was captured on the way.
TEST(DeviceWorker, TheEmbeddedTargetAnswersAsOnTheCpu) {
  const auto weights = embedded_target(Dtype::kBFloat16);
  kernels::ThreadPool pool(2);
  LocalWorker cpu(weights, 64, 1, 16, pool);
  DeviceBench device(*weights, 64, 8);
  // Prompt 2 comes to a tie that instruction classes decide differently.
  for (const unsigned seed : {1U, 3U, 4U}) {
    const auto prompt = random_tokens(12, seed);
    const auto expected = testing::plain_greedy(cpu, prompt, 5);
    EXPECT_EQ(testing::plain_greedy(device.worker, prompt, 5), expected) << seed;
  }
}

TEST(DeviceWorker, GivesBackAllThatItTook) {
  const auto weights = testing::formula_weights(testing::architecture_golden("mistral")["config"], Dtype::kFloat32);
  const auto queue = std::make_shared<kernels::cuda::HostQueue>();
  {
    DeviceWorker worker(queue, *weights, 16, 16, 8);
    PlainSequence sequence(worker);
    sequence.feed(random_tokens(20, 1, 96), 16);
    EXPECT_GT(queue->n_allocations(), 0);
  }
  EXPECT_EQ(queue->n_allocations(), 0);
}

TEST(DeviceWorkerDeathTest, CallersMistakesAreBugs) {
  DeviceBench device(*testing::formula_weights(testing::architecture_golden("mistral")["config"], Dtype::kBFloat16), 8);
  PlainSequence sequence(device.worker);
  const std::vector<std::int32_t> outside{96}, nine(9, 7);
  EXPECT_DEATH(sequence.feed(outside, 1), "outside the vocabulary");
  EXPECT_DEATH(sequence.feed(nine, 9), "more rows than the workspace");
}

}  // namespace
}  // namespace slip
