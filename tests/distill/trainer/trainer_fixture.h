// SPDX-License-Identifier: Apache-2.0
// A small draft, records to train it on, and a folder for its trainer's files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "distill/trainer/draft_trainer.h"
#include "tests/checkpoints/tiny_config.h"
#include "tests/distill/sample_records.h"

namespace slip::testing {

// max |a − b| / max |a|
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max<double>(worst, std::abs(a[i] - b[i]));
    largest = std::max<double>(largest, std::abs(a[i]));
  }
  return worst / largest;
}

inline constexpr std::int32_t kSmallVocab = 97;

inline ModelConfig small_config(bool tied = true) {
  return tiny_config({.vocab_size = kSmallVocab,
                      .intermediate_size = 40,
                      .n_layers = 2,
                      .n_heads = 4,
                      .max_positions = 64,
                      .tied_embeddings = tied,
                      .eos_ids = {1}});
}

// A target that gives 70 % to one token determined by the previous one, 20 % to another, and the rest to the tail.
inline ReplayRecord learnable_record(std::uint64_t seed, int prompt, int answer) {
  ReplayRecord record = make_record(seed, "sql", prompt + answer, 0, kSmallVocab);
  record.prompt_tokens = prompt;
  for (int i = 0; i < answer; ++i) {
    const int before = prompt + i > 0 ? record.tokens[prompt + i - 1] : 0;
    TopK row;
    row.ids = {(before * 7 + 3) % kSmallVocab, (before * 5 + 11) % kSmallVocab};
    if (row.ids[0] == row.ids[1]) row.ids[1] = (row.ids[1] + 1) % kSmallVocab;
    row.logprobs = {std::log(0.7F), std::log(0.2F)};
    row.log_tail = std::log(0.1F);
    record.target.push_back(row);
  }
  return record;
}

inline std::vector<ReplayRecord> make_batch(int n, std::uint64_t seed = 1) {
  std::vector<ReplayRecord> batch;
  for (int i = 0; i < n; ++i) batch.push_back(learnable_record(seed + i, 3 + i, 10 + 2 * i));
  return batch;
}

class TrainerTest : public ::testing::Test {
 protected:
  std::string state_of(const DraftTrainer& trainer) {
    trainer.save(folder_ / "snapshot");
    std::ifstream file(folder_ / "snapshot", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryFolder own_;
  const std::filesystem::path folder_ = own_.path();
};

}  // namespace slip::testing
