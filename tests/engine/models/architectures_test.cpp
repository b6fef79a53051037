// SPDX-License-Identifier: Apache-2.0
// Every architecture against Hugging Face's float32 logits and greedy tokens (tests/goldens/architectures.json, written
// by tools/goldens_architectures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/engine/models/formula_model.h"
#include "tests/engine/models/plain_decode.h"

namespace slip {
namespace {

using nlohmann::json;
using testing::architecture_golden;
using testing::PlainSequence;

constexpr double kTolerance = 1e-4;  // of the largest logit

Dtype stored_dtype(const json& golden) {
  if (golden["stored"] == "BF16") return Dtype::kBFloat16;
  return golden["stored"] == "F16" ? Dtype::kFloat16 : Dtype::kFloat32;
}

struct Comparison {
  double deviation = 0;  // max |a − b| / max |b|
  std::vector<std::int32_t> greedy;
};

// One pass over the prompt and the expected answer but its last token; see goldens_test.cpp.
Comparison compare(const json& golden, const json& config) {
  kernels::ThreadPool pool(1);
  LocalWorker worker(testing::formula_weights(config, Dtype::kFloat32, stored_dtype(golden)), 128, 128, 8, pool);
  auto ids = golden["prompt"].get<std::vector<std::int32_t>>();
  const auto greedy = golden["greedy"].get<std::vector<std::int32_t>>();
  const std::size_t first_answer = ids.size() - 1;
  ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
  PlainSequence sequence(worker);
  const std::span<const float> logits = sequence.feed_at_once(ids, static_cast<std::int32_t>(ids.size()));
  const auto vocabulary = static_cast<std::size_t>(worker.config().vocab_size);
  Comparison found;
  for (const auto& [row, expected] : golden["logits"].items()) {
    const auto wanted = expected.get<std::vector<double>>();
    double largest = 0, off = 0;
    for (std::size_t i = 0; i < vocabulary; ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
      off = std::max(off, std::abs(logits[std::stoul(row) * vocabulary + i] - wanted[i]));
    }
    found.deviation = std::max(found.deviation, off / largest);
  }
  for (std::size_t row = first_answer; row < ids.size(); ++row) {
    found.greedy.push_back(static_cast<std::int32_t>(kernels::argmax(logits.subspan(row * vocabulary, vocabulary))));
  }
  return found;
}

class ArchitectureGoldens : public ::testing::TestWithParam<std::string> {};

TEST_P(ArchitectureGoldens, Float32LogitsAndGreedyTokensEqualHuggingFace) {
  const json& golden = architecture_golden(GetParam());
  const Comparison found = compare(golden, golden["config"]);
  std::printf("%s: %.2e of the largest logit\n", GetParam().c_str(), found.deviation);
  EXPECT_LE(found.deviation, kTolerance);
  EXPECT_EQ(found.greedy, golden["greedy"].get<std::vector<std::int32_t>>());
}

// What we write is a configuration of the same model.
TEST_P(ArchitectureGoldens, WrittenConfigurationsReadBackAlike) {
  const ModelConfig config = parse_model_config(architecture_golden(GetParam())["config"].dump(), "", "golden");
  const ModelConfig again = parse_model_config(to_config_json(config), "", "again");
  EXPECT_TRUE(again.same_shape(config));
  EXPECT_EQ(again.architecture, config.architecture);
  EXPECT_EQ(again.parameters(), config.parameters());
  EXPECT_EQ(again.beyond_plain_llama(), config.beyond_plain_llama());
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureGoldens, ::testing::ValuesIn(testing::architecture_names()),
                         [](const auto& param) { return param.param; });

TEST(ArchitectureGoldensFile, HasEveryArchitectureAndFeature) {
  std::set<std::string> architectures, ropes;
  int n_windowed = 0;
  for (const json& golden : testing::architecture_goldens()) {
    const ModelConfig config = parse_model_config(golden["config"].dump(), "", "golden");
    architectures.insert(config.architecture);
    ropes.insert(std::to_string(static_cast<int>(config.rope_scaling.type)));
    n_windowed += config.windows.empty() ? 0 : 1;
  }
  EXPECT_EQ(architectures.size(), 4U);
  EXPECT_EQ(ropes.size(), 4U);
  EXPECT_GE(n_windowed, 8);
  EXPECT_GE(testing::architecture_goldens().size(), 20U);
}

// Each of these is a plausible mistake in reading a configuration; the comparison must see it.
void expect_caught(const std::string& name, const json& changes) {
  const json& golden = architecture_golden(name);
  json config = golden["config"];
  config.merge_patch(changes);
  EXPECT_GT(compare(golden, config).deviation, 10 * kTolerance) << name << ": " << changes;
}

TEST(ArchitectureGoldensNegative, ASlightlyOtherModelIsOutsideTheTolerance) {
  expect_caught("mistral_window", {{"sliding_window", 17}});
  expect_caught("mistral_window", {{"sliding_window", nullptr}});
  expect_caught("mistral_window_longer_than_a_block_old_keys", {{"sliding_window", 32}});
  expect_caught("qwen2_window", {{"layer_types", {"full_attention", "sliding_attention"}}});
  expect_caught("qwen2_window_in_the_last_layer_old_keys", {{"max_window_layers", 0}});
  expect_caught("llama_linear", {{"rope_parameters", {{"factor", 4.2}}}});
  expect_caught("llama_llama3", {{"rope_parameters", {{"high_freq_factor", 8.0}}}});
  expect_caught("llama_yarn", {{"rope_parameters", {{"attention_factor", 1.0}}}});
  expect_caught("llama_yarn", {{"rope_parameters", {{"beta_slow", 0.25}}}});
  expect_caught("llama_yarn_mscale_unrounded", {{"rope_parameters", {{"truncate", true}}}});
  expect_caught("llama_theta", {{"rope_theta", 400000.0}});
}

}  // namespace
}  // namespace slip
