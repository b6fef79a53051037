// SPDX-License-Identifier: Apache-2.0
// The forward pass against Hugging Face's float32 logits and greedy tokens (tests/goldens/target.json, written by
// tools/goldens.py). The file's own prompts are always checked; its rows of the data folder wherever that folder
// stands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/common/patience.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/models/plain_decode.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

using nlohmann::json;
using testing::PlainSequence;

const std::filesystem::path kData = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / ".." / "shared" / "data" / "dev";

json read_goldens() {
  std::ifstream file(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/goldens/target.json");
  return json::parse(file);
}

std::string fnv1a(const std::vector<std::int32_t>& ids) {
  std::uint64_t state = 0xcbf29ce484222325;
  for (const auto& byte : std::as_bytes(std::span(ids))) {
    state = (state ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(state));
  return text;
}

// The templated prompt of a row of the data folder, by kind and id.
class DataRows {
 public:
  DataRows() : tokenizer_(Tokenizer::load(testing::embedded_target_folder())) {}

  std::vector<std::int32_t> prompt_ids(const std::string& kind, const std::string& row) {
    if (!prompts_.contains(kind)) read(kind);
    const std::string text = "<|bos|><|user|>\n" + prompts_[kind].at(row) + "<|end|>\n<|assistant|>\n";
    return tokenizer_->encode(text, SpecialTokens::kParse);
  }

 private:
  void read(const std::string& kind) {
    std::ifstream file(kData / (kind + ".jsonl"));
    for (std::string line; std::getline(file, line);) {
      const json row = json::parse(line);
      prompts_[kind][row["id"]] = row["prompt"];
    }
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::map<std::string, std::map<std::string, std::string>> prompts_;
};

struct Deviation {
  double of_maximum = 0;  // max |a − b| / max |b|
  double per_logit = 0;   // max |a − b| / max(1, |b|)
};

Deviation deviation(std::span<const float> logits, const json& golden, const json& ids) {
  Deviation worst;
  double largest = std::abs(golden["max_logit"].get<double>());
  for (const auto& value : golden["logits"]) largest = std::max(largest, std::abs(value.get<double>()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double expected = golden["logits"][i], difference = std::abs(logits[ids[i].get<std::size_t>()] - expected);
    worst.of_maximum = std::max(worst.of_maximum, difference / largest);
    worst.per_logit = std::max(worst.per_logit, difference / std::max(1.0, std::abs(expected)));
  }
  const double maximum = golden["max_logit"];
  const double off = std::abs(*std::max_element(logits.begin(), logits.end()) - maximum);
  worst.of_maximum = std::max(worst.of_maximum, off / largest);
  return worst;
}

// The most likely token of each row of logits [n, vocab].
std::vector<std::int32_t> row_maxima(std::span<const float> logits, std::size_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t at = 0; at < logits.size(); at += vocabulary) {
    tokens.push_back(static_cast<std::int32_t>(kernels::argmax(logits.subspan(at, vocabulary))));
  }
  return tokens;
}

constexpr double kTolerance = 1e-4;

// "own", or a kind of the data folder.
std::string kind_of(const json& golden) {
  return golden.contains("prompt_ids") ? "own" : golden["kind"].get<std::string>();
}

class TargetGoldens : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<std::int32_t> prompt_ids(const json& golden) {
    if (golden.contains("prompt_ids")) return golden["prompt_ids"].get<std::vector<std::int32_t>>();
    const auto ids = data_.prompt_ids(golden["kind"], golden["row"]);
    EXPECT_EQ(fnv1a(ids), golden["ids_hash"]) << golden.value("row", "own");
    return ids;
  }

  // One pass over the prompt and the expected answer without its last token. If every row's most likely token is the
  // next expected one, then, by induction, decoding token by token gives the expected answer.
  void check(const json& golden, const json& logit_ids) {
    auto ids = prompt_ids(golden);
    const auto greedy = golden["greedy"].get<std::vector<std::int32_t>>();
    ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
    const auto vocabulary = static_cast<std::size_t>(worker_.config().vocab_size);
    PlainSequence sequence(worker_);
    const std::span<const float> logits = sequence.feed_at_once(ids, static_cast<std::int32_t>(greedy.size()));
    const auto found = deviation(logits.first(vocabulary), golden, logit_ids);
    worst_ = {std::max(worst_.of_maximum, found.of_maximum), std::max(worst_.per_logit, found.per_logit)};
    EXPECT_LE(found.of_maximum, kTolerance) << golden.value("row", "own");
    EXPECT_LE(found.per_logit, kTolerance) << golden.value("row", "own");
    EXPECT_EQ(row_maxima(logits, vocabulary), greedy) << golden.value("row", "own");
  }

  DataRows data_;
  kernels::ThreadPool pool_{1};
  LocalWorker worker_{testing::embedded_target(Dtype::kFloat32), 1024, 32, 64, pool_};
  Deviation worst_;
};

TEST_P(TargetGoldens, Float32LogitsAndGreedyTokensEqualHuggingFace) {
  const json goldens = read_goldens();
  const std::string kind = GetParam();
  const bool there = kind == "own" || std::filesystem::exists(kData);
  int checked = 0;
  for (const json& golden : goldens["cases"]) {
    if (kind_of(golden) != kind) continue;
    // Sanitizer builds check only some of them.
    if (there && checked % testing::kPatience == 0) check(golden, goldens["logit_ids"]);
    ++checked;
  }
  std::printf("%s: worst deviation %.2e of the largest logit, %.2e per logit\n",
              there ? kind.c_str() : "no data folder", worst_.of_maximum, worst_.per_logit);
  EXPECT_GE(checked, 40) << "the goldens lost their cases";
}

INSTANTIATE_TEST_SUITE_P(Prompts, TargetGoldens, ::testing::Values("own", "math", "sql", "code", "lang"));

// The comparison above must notice a small fault: bfloat16's rounding is one.
TEST(TargetGoldensNegative, Bfloat16LogitsAreOutsideTheTolerance) {
  const json goldens = read_goldens();
  kernels::ThreadPool pool(2);
  LocalWorker worker(testing::embedded_target(Dtype::kBFloat16), 1024, 1, 64, pool);
  PlainSequence sequence(worker);
  const json& golden = goldens["cases"][0];
  const auto& logits = sequence.feed(golden["prompt_ids"].get<std::vector<std::int32_t>>(), 1024);
  EXPECT_GT(deviation(logits, golden, goldens["logit_ids"]).of_maximum, kTolerance);
}

}  // namespace
}  // namespace slip
