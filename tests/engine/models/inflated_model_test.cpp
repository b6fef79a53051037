// SPDX-License-Identifier: Apache-2.0
// An inflated model costs more and gives the same outputs.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoints/inflate.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/plain_decode.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

using testing::plain_greedy;
using testing::PlainSequence;
using testing::TemporaryFolder;
using testing::TinyLlama;

struct Pair {
  std::unique_ptr<LocalWorker> small, large;
};

class InflatedModel : public ::testing::Test {
 protected:
  Pair load(const std::filesystem::path& small, const InflateShape& shape, Dtype dtype) {
    inflate_checkpoint(small, folder_.path() / "large", shape);
    return {worker(ModelWeights::load(small, dtype)), worker(ModelWeights::load(folder_.path() / "large", dtype))};
  }
  std::unique_ptr<LocalWorker> worker(std::shared_ptr<const ModelWeights> weights) {
    return std::make_unique<LocalWorker>(std::move(weights), 64, 1, 16, pool_);
  }
  TemporaryFolder folder_;
  kernels::ThreadPool pool_{2};
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Shapes of a tiny model (hidden 16, 2 layers, ffn 24, heads 4/2): wider, deeper, more heads, other groups.
const std::vector<InflateShape> kShapes{
    {.hidden_size = 64},
    {.n_layers = 5},
    {.intermediate_size = 100},
    {.n_heads = 12, .n_kv_heads = 6},
    {.n_heads = 6, .n_kv_heads = 2},
    {.n_heads = 4, .n_kv_heads = 4},
    {.n_heads = 7, .n_kv_heads = 7},
    {.hidden_size = 256, .n_layers = 3, .intermediate_size = 40, .n_heads = 8, .n_kv_heads = 4},
};

TEST_F(InflatedModel, EveryShapeComputesTheSmallModelsFunction) {
  const TinyLlama tiny;
  tiny.write(folder_.path() / "small");
  const std::vector<std::int32_t> prompt{0, 5, 31, 8, 8, 2, 19, 7};
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      const Pair pair = load(folder_.path() / "small", kShapes[i], dtype);
      PlainSequence small(*pair.small), large(*pair.large);
      // Only the order of float32 sums may differ.
      EXPECT_LT(largest_difference(small.feed(prompt, 8), large.feed(prompt, 8)), 1e-5) << "shape " << i;
      EXPECT_EQ(small.greedy(40), large.greedy(40)) << "shape " << i;
    }
  }
}

TEST_F(InflatedModel, TheEmbeddedTargetSaysTheSameInBfloat16) {
  const Pair pair = load(testing::embedded_target_folder(),
                         {.n_layers = 7, .intermediate_size = 1536, .n_heads = 12, .n_kv_heads = 4}, Dtype::kBFloat16);
  const auto tokenizer = Tokenizer::load(testing::embedded_target_folder());
  for (const char* prompt :
       {"Question: How many books are there?\nWrite the SQL query.", "Mira has 12 apples and buys 5 more. How many?",
        "Continue this paragraph:\nDie Stadt liegt am"}) {
    const auto ids = tokenizer->encode(std::string("<|bos|><|user|>\n") + prompt + "<|end|>\n<|assistant|>\n",
                                       SpecialTokens::kParse);
    EXPECT_EQ(plain_greedy(*pair.small, ids, 48), plain_greedy(*pair.large, ids, 48)) << prompt;
  }
}

TEST_F(InflatedModel, AtOtherWidthsOnlyTheNormsAreRounded) {
  const Pair pair =
      load(testing::embedded_target_folder(), {.hidden_size = 512, .n_heads = 8, .n_kv_heads = 4}, Dtype::kFloat32);
  const auto tokenizer = Tokenizer::load(testing::embedded_target_folder());
  const auto ids = tokenizer->encode("<|bos|><|user|>\nMira has 12 apples and buys 5 more. How many?<|end|>\n",
                                     SpecialTokens::kParse);
  PlainSequence small(*pair.small), large(*pair.large);
  EXPECT_LT(largest_difference(small.feed(ids, 64), large.feed(ids, 64)), 1e-4);
  EXPECT_EQ(small.greedy(48), large.greedy(48));
}

// The comparison notices when one output projection of the padding is not zero.
TEST_F(InflatedModel, NegativeAPaddedColumnThatIsNotZeroIsSeen) {
  TinyLlama tiny;
  tiny.write(folder_.path() / "small");
  const Pair pair = load(folder_.path() / "small", {.intermediate_size = 40}, Dtype::kFloat32);
  auto broken = std::const_pointer_cast<ModelWeights>(ModelWeights::load(folder_.path() / "large", Dtype::kFloat32));
  std::vector<float> down(16 * 40, 0.0F);
  down[39] = 0.5F;
  broken->layers[0].down = kernels::PackedMatrix(down.data(), Dtype::kFloat32, 16, 40, Dtype::kFloat32);
  const auto damaged = worker(broken);
  const std::vector<std::int32_t> prompt{0, 5, 31, 8};
  PlainSequence small(*pair.small), large(*damaged);
  EXPECT_GT(largest_difference(small.feed(prompt, 8), large.feed(prompt, 8)), 1e-5);
}

}  // namespace
}  // namespace slip
