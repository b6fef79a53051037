// SPDX-License-Identifier: Apache-2.0
// Batch invariance with windows, biases and norms: a row verified with others has the bits of the row decoded alone.
#include <gtest/gtest.h>

#include "tests/engine/models/batch_step.h"
#include "tests/engine/models/formula_model.h"

namespace slip {
namespace {

using testing::BatchStep;
using testing::Part;
using testing::PlainSequence;
using testing::random_tokens;
using testing::same_bits;

class ArchitectureBits : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::int32_t> tokens(int n, unsigned seed) { return random_tokens(n, seed, 96); }
  std::shared_ptr<const ModelWeights> weights_ =
      testing::formula_weights(testing::architecture_golden(GetParam())["config"], Dtype::kBFloat16);
  kernels::ThreadPool pool_{2};
  LocalWorker worker_{weights_, 128, 64, 64, pool_};
};

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureBits, ::testing::ValuesIn(testing::architecture_names()),
                         [](const auto& param) { return param.param; });

TEST_P(ArchitectureBits, AnyChunkingOfAPromptGivesTheSameLogits) {
  const auto prompt = tokens(90, 1);
  PlainSequence whole(worker_);
  const auto expected = whole.feed(prompt, 128);
  for (const std::size_t chunk : {1, 2, 7, 32, 33, 89}) {
    PlainSequence chunked(worker_);
    EXPECT_TRUE(same_bits(chunked.feed(prompt, chunk).data(), expected.data(), expected.size())) << chunk;
  }
}

std::vector<std::int32_t> path_to(const Part& part, std::size_t row) {
  std::vector<std::int32_t> path;
  for (auto node = static_cast<std::int32_t>(row); node >= 0;
       node = part.parents.empty() ? node - 1 : part.parents[static_cast<std::size_t>(node)]) {
    path.insert(path.begin(), part.tokens[static_cast<std::size_t>(node)]);
  }
  return path;
}

// A long chain whose window lies wholly within the proposal, a tree whose branches are longer than a window and whose
// ranks have gaps, and both after prompts shorter and longer than the window.
TEST_P(ArchitectureBits, VerifiedChainsAndTreesEqualDecodingOneByOne) {
  const std::vector<std::vector<std::int32_t>> prompts{tokens(3, 3), tokens(31, 4), tokens(60, 5)};
  std::vector<std::int32_t> comb(40);  // two branches that interleave: 0 ─ 2 ─ 4 …, 1 ─ 3 ─ 5 …
  for (std::size_t i = 0; i < comb.size(); ++i) comb[i] = static_cast<std::int32_t>(i) - 2;
  comb[0] = comb[1] = -1;
  std::vector<PlainSequence> pasts;
  for (const auto& prompt : prompts) {
    pasts.emplace_back(worker_);
    pasts.back().feed(prompt, 128);
  }
  const std::vector<Part> parts{{&pasts[0], tokens(40, 6), {}},
                                {&pasts[1], tokens(40, 7), comb},
                                {&pasts[2], tokens(6, 8), {-1, 0, 1, 1, 0, -1}}};
  Transformer transformer(worker_.config(), pool_);
  Workspace workspace(worker_.config(), 128, 128);
  BatchStep step(parts);
  const std::vector<const ModelWeights*> weight_sets{weights_.get()};
  step.run(transformer, weight_sets, worker_.cache(), workspace);
  std::size_t row = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    for (std::size_t i = 0; i < parts[s].tokens.size(); ++i, ++row) {
      PlainSequence alone(worker_);
      alone.feed(prompts[s], 128);
      const auto& expected = alone.feed(path_to(parts[s], i), 1);
      ASSERT_TRUE(same_bits(step.logits(row), expected.data(), expected.size())) << "sequence " << s << " row " << i;
    }
  }
}

}  // namespace
}  // namespace slip
