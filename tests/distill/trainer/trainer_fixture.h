// SPDX-License-Identifier: Apache-2.0
// A small draft, records to train it on, and a folder for its trainer's files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "distill/trainer/draft_trainer.h"
#include "engine/sampling/random.h"

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

inline ModelConfig small_config(bool tied = true) {
  ModelConfig config;
  config.vocab_size = 97;
  config.hidden_size = 32;
  config.intermediate_size = 40;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = 64;
  config.tied_embeddings = tied;
  config.eos_ids = {1};
  return config;
}

inline int draw(std::uint64_t seed, std::uint32_t index, int below) {
  return static_cast<int>(uniform({seed, 0, index}, RandomPurpose::kDraft) * below);
}

// A target that gives 70 % to one token determined by the previous one, 20 % to another, and the rest to the tail.
inline ReplayRecord make_record(std::uint64_t seed, int prompt, int answer, int vocab = 97) {
  ReplayRecord record;
  record.request = {seed};
  record.prompt_tokens = prompt;
  for (int i = 0; i < prompt + answer; ++i) record.tokens.push_back(draw(seed, i, vocab));
  for (int i = 0; i < answer; ++i) {
    const int before = prompt + i > 0 ? record.tokens[prompt + i - 1] : 0;
    TopK row;
    row.ids = {(before * 7 + 3) % vocab, (before * 5 + 11) % vocab};
    if (row.ids[0] == row.ids[1]) row.ids[1] = (row.ids[1] + 1) % vocab;
    row.logprobs = {std::log(0.7F), std::log(0.2F)};
    row.log_tail = std::log(0.1F);
    record.target.push_back(row);
  }
  return record;
}

inline std::vector<ReplayRecord> make_batch(int n, std::uint64_t seed = 1) {
  std::vector<ReplayRecord> batch;
  for (int i = 0; i < n; ++i) batch.push_back(make_record(seed + i, 3 + i, 10 + 2 * i));
  return batch;
}

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("trainer-") + info->name() + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string state_of(const DraftTrainer& trainer) {
    trainer.save(folder_ / "snapshot");
    std::ifstream file(folder_ / "snapshot", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
};

}  // namespace slip::testing
