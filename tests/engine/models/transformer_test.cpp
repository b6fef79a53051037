// SPDX-License-Identifier: Apache-2.0
// Batch invariance of the whole forward pass: equality here is of bits, never "close".
#include "engine/models/transformer.h"

#include <gtest/gtest.h>

#include "tests/engine/models/batch_step.h"
#include "tests/engine/models/embedded_target.h"

namespace slip {
namespace {

using testing::BatchStep;
using testing::embedded_target;
using testing::Part;
using testing::PlainSequence;
using testing::random_tokens;
using testing::same_bits;

class TransformerBits : public ::testing::TestWithParam<std::tuple<Dtype, int>> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  kernels::ThreadPool pool_{std::get<1>(GetParam())};
  LocalWorker worker_{embedded_target(dtype()), 256, 64, 64, pool_};
};

TEST_P(TransformerBits, AnyChunkingOfAPromptGivesTheSameLogits) {
  const auto prompt = random_tokens(150, 1);
  PlainSequence whole(worker_);
  const auto expected = whole.feed(prompt, 256);
  for (const std::size_t chunk : {1, 2, 3, 7, 16, 17, 64, 149}) {
    PlainSequence chunked(worker_);
    const auto& logits = chunked.feed(prompt, chunk);
    EXPECT_TRUE(same_bits(logits.data(), expected.data(), expected.size())) << "chunks of " << chunk;
  }
}

TEST_P(TransformerBits, ThreadCountChangesNothing) {
  const auto prompt = random_tokens(90, 2);
  kernels::ThreadPool three(3);
  LocalWorker other(embedded_target(dtype()), 256, 1, 16, three);
  PlainSequence a(worker_), b(other);
  const auto expected = a.feed(prompt, 90);
  EXPECT_TRUE(same_bits(b.feed(prompt, 31).data(), expected.data(), expected.size()));
}

// Verifying a drafted chain must give each row the bits that decoding it alone would.
TEST_P(TransformerBits, RowsOfManySequencesAndTreesEqualDecodingOneByOne) {
  const auto prompts = std::vector{random_tokens(5, 3), random_tokens(33, 4), random_tokens(64, 5)};
  std::vector<PlainSequence> pasts;
  for (const auto& prompt : prompts) {
    pasts.emplace_back(worker_);
    pasts.back().feed(prompt, 64);
  }
  // Sequence 1 is a tree:  0 ─ 1 ─ 2,  1 ─ 3,  0 ─ 4,  root ─ 5.
  const std::vector<Part> parts{{&pasts[0], random_tokens(4, 6), {}},
                                {&pasts[1], random_tokens(6, 7), {-1, 0, 1, 1, 0, -1}},
                                {&pasts[2], random_tokens(1, 8), {}}};
  Transformer transformer(worker_.config(), pool_);
  Workspace workspace(worker_.config(), 64, 64);
  BatchStep step(parts);
  const std::vector<const ModelWeights*> weight_sets{embedded_target(dtype()).get()};
  step.run(transformer, weight_sets, worker_.cache(), workspace);

  std::size_t row = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    for (std::size_t i = 0; i < parts[s].tokens.size(); ++i, ++row) {
      std::vector<std::int32_t> path;
      for (auto node = static_cast<std::int32_t>(i); node >= 0;
           node = parts[s].parents.empty() ? node - 1 : parts[s].parents[static_cast<std::size_t>(node)]) {
        path.insert(path.begin(), parts[s].tokens[static_cast<std::size_t>(node)]);
      }
      PlainSequence alone(worker_);
      alone.feed(prompts[s], 64);
      const auto& expected = alone.feed(path, 1);
      EXPECT_TRUE(same_bits(step.logits(row), expected.data(), expected.size())) << "sequence " << s << " row " << i;
    }
  }
}

// After a verification the rejected rows' slots are simply written again.
// Rows whose logits nobody wants leave the pass in the last layer; what they stored there stays.
TEST_P(TransformerBits, RowsThatNobodyWantsChangeNoOtherRow) {
  const std::vector<std::vector<std::int32_t>> wanted{{3, 7, 39, 40}, {0}, {41}, {}, {5, 8}};
  const auto run = [&](const std::vector<std::int32_t>* rows, std::vector<std::vector<float>>& next) {
    std::vector<PlainSequence> pasts;
    for (const unsigned seed : {3U, 4U, 5U}) {
      pasts.emplace_back(worker_);
      pasts.back().feed(random_tokens(20, seed), 64);
    }
    // Rows 0 … 3, then a tree of six, 4 … 9, then a prompt of 32.
    BatchStep step({{&pasts[0], random_tokens(4, 6), {}},
                    {&pasts[1], random_tokens(6, 7), {-1, 0, 1, 1, 0, -1}},
                    {&pasts[2], random_tokens(32, 8), {}}});
    if (rows != nullptr) step.want(*rows);
    step.run(worker_);
    pasts[0].advance(4);
    pasts[2].advance(32);
    for (const std::size_t s : {0, 2}) next.push_back(pasts[s].feed(random_tokens(1, 9), 1));
    return step;
  };
  std::vector<std::vector<float>> expected_next;
  const BatchStep all = run(nullptr, expected_next);
  const auto vocabulary = static_cast<std::size_t>(worker_.config().vocab_size);
  for (const auto& rows : wanted) {
    std::vector<std::vector<float>> next;
    const BatchStep some = run(&rows, next);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(same_bits(some.logits(i), all.logits(static_cast<std::size_t>(rows[i])), vocabulary)) << rows[i];
    }
    EXPECT_EQ(next, expected_next);
  }
}

TEST_P(TransformerBits, RejectedRowsLeaveNoTrace) {
  const auto prompt = random_tokens(40, 9), wrong = random_tokens(5, 10), right = random_tokens(3, 11);
  PlainSequence past(worker_), clean(worker_);
  past.feed(prompt, 64);
  Transformer transformer(worker_.config(), pool_);
  Workspace workspace(worker_.config(), 64, 64);
  const std::vector<const ModelWeights*> weight_sets{embedded_target(dtype()).get()};
  BatchStep step({{&past, wrong, {}}});
  step.run(transformer, weight_sets, worker_.cache(), workspace);
  clean.feed(prompt, 64);
  const auto expected = clean.feed(right, 1);
  EXPECT_TRUE(same_bits(past.feed(right, 3).data(), expected.data(), expected.size()));
}

INSTANTIATE_TEST_SUITE_P(Machines, TransformerBits,
                         ::testing::Combine(::testing::Values(Dtype::kBFloat16, Dtype::kFloat32),
                                            ::testing::Values(1, 2)));

// A second set of weights of the same shape, different enough to tell.
std::shared_ptr<const ModelWeights> scaled_norms() {
  auto weights =
      std::const_pointer_cast<ModelWeights>(ModelWeights::load(testing::embedded_target_folder(), Dtype::kBFloat16));
  for (auto& layer : weights->layers) {
    for (float& value : layer.attention_norm) value *= 0.5F;
  }
  for (float& value : weights->final_norm) value *= 0.75F;
  return weights;
}

TEST(TransformerWeightSets, EachSequenceMeetsItsOwnWeights) {
  kernels::ThreadPool pool(2);
  const auto first = embedded_target(Dtype::kBFloat16), second = scaled_norms();
  LocalWorker alone_first(first, 64, 1, 32, pool), alone_second(second, 64, 1, 32, pool);
  Transformer transformer(first->config, pool);
  Workspace workspace(first->config, 64, 64);
  LocalWorker owner(first, 64, 1, 64, pool);  // owns the shared cache
  const std::vector<const ModelWeights*> weight_sets{first.get(), second.get()};

  std::vector<PlainSequence> empty;
  std::vector<Part> parts;
  const std::vector<std::uint16_t> indices{0, 1, 1, 0, 1};
  for (std::size_t s = 0; s < indices.size(); ++s) empty.emplace_back(owner);
  for (std::size_t s = 0; s < indices.size(); ++s) {
    parts.push_back({&empty[s], random_tokens(6 + static_cast<int>(s), 20 + static_cast<unsigned>(s)), {}, indices[s]});
  }
  BatchStep step(parts);
  std::vector<std::int32_t> last_rows;
  std::int32_t n_rows = 0;
  for (const Part& part : parts) last_rows.push_back((n_rows += static_cast<std::int32_t>(part.tokens.size())) - 1);
  step.want(last_rows);
  step.run(transformer, weight_sets, owner.cache(), workspace);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    PlainSequence alone(indices[s] == 0 ? alone_first : alone_second);
    const auto& expected = alone.feed(parts[s].tokens, 64);
    EXPECT_TRUE(same_bits(step.logits(s), expected.data(), expected.size())) << "sequence " << s;
  }
}

TEST(TransformerTaps, HoldTheResidualStreamAfterALayer) {
  kernels::ThreadPool pool(1);
  LocalWorker worker(embedded_target(Dtype::kFloat32), 16, 1, 8, pool);
  const auto& config = worker.config();
  const std::vector<std::int32_t> tokens{7, 99, 1234}, positions{0, 1, 2}, row_begin{0, 3}, logit_rows{2};
  PageTable pages(worker.cache());
  ASSERT_TRUE(pages.reserve(3));
  KvView kv;
  kv.pages = &pages;
  StepInput input;
  input.tokens = tokens;
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = {&kv, 1};
  input.logit_rows = logit_rows;
  input.taps.layers = (1U << 0) | (1U << 5);
  std::vector<float> early(3 * 384), late(3 * 384), hidden(384);
  std::vector<TensorView> taps{TensorView::contiguous(early.data(), {3, 384}),
                               TensorView::contiguous(late.data(), {3, 384})};
  StepOutput output;
  output.final_hidden = TensorView::contiguous(hidden.data(), {1, 384});
  output.taps = taps;
  worker.run(input, output);
  // The last layer's tap, normed, is the final hidden state; the first layer's is something else.
  std::vector<float> normed(384);
  const auto weights = embedded_target(Dtype::kFloat32);
  kernels::rms_norm(late.data() + 2 * 384, weights->final_norm.data(), 384, static_cast<float>(config.rms_norm_eps),
                    normed.data());
  EXPECT_TRUE(same_bits(normed.data(), hidden.data(), 384));
  EXPECT_FALSE(same_bits(early.data(), late.data(), early.size()));
}

TEST(TransformerDeathTest, CallersMistakesAreBugs) {
  kernels::ThreadPool pool(1);
  LocalWorker worker(embedded_target(Dtype::kBFloat16), 8, 1, 2, pool);
  PlainSequence sequence(worker);
  const std::vector<std::int32_t> outside{8192}, nine(9, 7);
  EXPECT_DEATH(sequence.feed(outside, 1), "outside the vocabulary");
  EXPECT_DEATH(sequence.feed(nine, 9), "more rows than the workspace");
}

}  // namespace
}  // namespace slip
