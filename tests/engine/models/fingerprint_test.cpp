// SPDX-License-Identifier: Apache-2.0
#include "engine/models/fingerprint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "common/error.h"
#include "tests/checkpoints/tiny_llama.h"

namespace slip {
namespace {

using testing::TinyLlama;

class FingerprintTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const TinyLlama& model, const std::string& words = "{}") const {
    const auto folder = folder_.path() / name;
    model.write(folder);
    std::ofstream(folder / "tokenizer.json") << words;
    return folder;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(FingerprintTest, OneOfTheTargetIsOfItsShapeAndWordsAlone) {
  TinyLlama model;
  const std::string one = target_fingerprint(write("one", model));
  EXPECT_EQ(one.size(), 64U);
  model.tensors.begin()->second.values[0] += 1;
  EXPECT_EQ(target_fingerprint(write("trained", model)), one);
  EXPECT_NE(target_fingerprint(write("words", model, "{ }")), one);
  EXPECT_NE(target_fingerprint(write("shape", TinyLlama(/*tied=*/true))), one);
}

TEST_F(FingerprintTest, OneOfTheModelIsOfItsWeightsToo) {
  const TinyLlama model;
  std::set<std::string> seen = {model_fingerprint(write("one", model))};
  EXPECT_FALSE(seen.insert(model_fingerprint(write("copy", model))).second);
  EXPECT_TRUE(seen.insert(model_fingerprint(write("words", model, "{ }"))).second);
  for (const auto& [name, tensor] : model.tensors) {
    TinyLlama changed = model;
    changed.tensors[name].values.back() += 1;
    EXPECT_TRUE(seen.insert(model_fingerprint(write("changed", changed))).second) << name;
  }
}

// Of a large tensor pieces are read: training moves all of it, so any one of them tells.
TEST_F(FingerprintTest, PiecesOfALargeTensorTell) {
  TinyLlama model;
  model.add("large", {1 << 16});
  const std::string before = model_fingerprint(write("before", model));
  TinyLlama trained = model, ended = model;
  auto& values = trained.tensors["large"].values;
  for (std::size_t i = 0; i < values.size(); i += 512) values[i] += 1;
  EXPECT_NE(model_fingerprint(write("trained", trained)), before);
  ended.tensors["large"].values.back() += 1;
  EXPECT_NE(model_fingerprint(write("ended", ended)), before) << "the last piece ends where the tensor does";
}

TEST_F(FingerprintTest, AFileThatIsNotThereIsNamed) {
  const auto folder = write("one", TinyLlama());
  std::filesystem::remove(folder / "tokenizer.json");
  EXPECT_THROW(model_fingerprint(folder), Error);
}

}  // namespace
}  // namespace slip
