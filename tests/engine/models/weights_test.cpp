// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "checkpoints/weight_files.h"
#include "common/error.h"
#include "engine/models/transformer.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/plain_decode.h"

namespace slip {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::TinyLlama;

Error refusal(const std::filesystem::path& folder, bool check_finite) {
  try {
    ModelWeights::load(folder, Dtype::kFloat32, check_finite);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "accepted");
}

TEST(ModelWeights, LoadTheEmbeddedTargetInBothFormats) {
  for (const Dtype dtype : {Dtype::kBFloat16, Dtype::kFloat32}) {
    const auto weights = testing::embedded_target(dtype);
    EXPECT_EQ(weights->layers.size(), 6U);
    EXPECT_EQ(weights->layers[0].qkv.n_out(), 640);
    EXPECT_EQ(weights->layers[0].gate_up.n_out(), 2048);
    EXPECT_EQ(weights->lm_head.n_out(), 8192);
    // The tied embedding is kept once, as the packed head; norms are float32 whatever the dtype.
    EXPECT_TRUE(weights->embedding.empty());
    EXPECT_GE(weights->bytes(), 12587904U * dtype_bytes(dtype));
    EXPECT_LE(weights->bytes(), 12587904U * dtype_bytes(dtype) + 13 * 384 * 4);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory would be counted
std::int64_t status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1));
  }
  return -1;
}

// Peak memory of a load beyond what was there before, in units of the packed weights.
double peak_of_loading(bool keep_source) {
  ::malloc_trim(0);                               // memory that other tests freed would be reused and hide the peak
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the recorded peak
  const std::int64_t before_kib = status_kib("VmRSS");
  if (status_kib("VmHWM") > before_kib + 1024) return -1;  // the peak cannot be reset here
  std::shared_ptr<const ModelWeights> weights;
  if (keep_source) {
    const WeightFiles source(testing::embedded_target_folder());
    std::byte sum{};
    for (const auto& [name, tensor] : source.tensors()) {
      for (const std::byte byte : tensor.bytes) sum ^= byte;
    }
    EXPECT_NE(sum, std::byte{0xA5});  // whatever it is: it has to be read
    weights = ModelWeights::load(testing::embedded_target_folder(), Dtype::kBFloat16);
  } else {
    weights = ModelWeights::load(testing::embedded_target_folder(), Dtype::kBFloat16);
  }
  return 1024.0 * static_cast<double>(status_kib("VmHWM") - before_kib) / static_cast<double>(weights->bytes());
}

// The largest matrix is a quarter of this model, so that a load may peak at 1.25 and some pages' rounding.
TEST(ModelWeights, LoadingNeverHoldsThemTwice) {
  const double peak = peak_of_loading(/*keep_source=*/false);
  if (peak < 0) GTEST_SKIP() << "the peak of this process cannot be reset";
  EXPECT_GT(peak, 0.5);
  EXPECT_LT(peak, 1.6);
}

TEST(ModelWeights, NegativeASecondCopyShowsInThePeak) {
  const double peak = peak_of_loading(/*keep_source=*/true);
  if (peak < 0) GTEST_SKIP() << "the peak of this process cannot be reset";
  EXPECT_GT(peak, 1.6);
}
#endif

TEST(ModelWeights, NonFiniteWeightsAreRefusedByNameWhenAsked) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const TemporaryFolder folder;
    TinyLlama tiny;
    tiny.tensors["model.layers.1.mlp.up_proj.weight"].values.back() = bad;
    tiny.write(folder.path());
    EXPECT_THAT(refusal(folder.path(), true).what(), HasSubstr("model.layers.1.mlp.up_proj.weight"));
    EXPECT_EQ(refusal(folder.path(), true).code(), ErrorCode::kDataLoss);
    EXPECT_STREQ(refusal(folder.path(), false).what(), "accepted");
  }
}

TEST(ModelWeights, RefuseAFolderWhoseFilesDisagree) {
  const TemporaryFolder folder;
  TinyLlama tiny;
  tiny.config.intermediate_size = 25;
  tiny.write(folder.path());
  EXPECT_THAT(refusal(folder.path(), false).what(), HasSubstr("config.json says [16, 25]"));
  EXPECT_THROW(ModelWeights::load(testing::embedded_target_folder(), Dtype::kFloat16), Error);
}

// Offsets in a file need no alignment: a header of odd length shifts every tensor by a byte.
TEST(ModelWeights, TensorsAtOddAddressesReadAlike) {
  const TemporaryFolder folder;
  const TinyLlama tiny;
  tiny.write(folder.path() / "even");
  std::filesystem::create_directories(folder.path() / "odd");
  std::filesystem::copy_file(folder.path() / "even/config.json", folder.path() / "odd/config.json");
  std::ifstream in(folder.path() / "even/model.safetensors", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const std::uint64_t longer = header + 1;
  std::string odd(reinterpret_cast<const char*>(&longer), 8);
  odd += bytes.substr(8, header) + " " + bytes.substr(8 + header);
  std::ofstream(folder.path() / "odd/model.safetensors", std::ios::binary) << odd;

  kernels::ThreadPool pool(1);
  const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5};
  std::vector<std::vector<std::int32_t>> said;
  for (const char* name : {"even", "odd"}) {
    LocalWorker worker(ModelWeights::load(folder.path() / name, Dtype::kFloat32), 8, 1, 4, pool);
    said.push_back(testing::plain_greedy(worker, prompt, 20));
  }
  EXPECT_EQ(said[0], said[1]);
}

}  // namespace
}  // namespace slip
