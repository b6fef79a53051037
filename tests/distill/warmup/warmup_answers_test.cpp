// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_answers.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "distill/warmup/warmup_prompts.h"
#include "engine/models/transformer.h"
#include "tests/distill/warmup/warmup_fixture.h"
#include "tests/kernels/cuda/host_queue.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

class WarmupAnswersTest : public testing::WarmupTest {};

class WrittenAndGiven : public testing::WarmupTest {
 protected:
  // Compares, for the same answers, the distributions observed while the engine generated them with those of a pass
  // over the given answers. Log probabilities may differ by the tolerance.
  void expect_agreement(const AnsweringTarget& target, double apart);
};

void WrittenAndGiven::expect_agreement(const AnsweringTarget& target, double apart) {
  WarmupOptions asked = options("x");
  PromptsLeftOut left_out;
  std::vector<WarmupPrompt> prompts = read_warmup_prompts(asked, left_out);
  kernels::ThreadPool pool(1);
  const std::vector<std::size_t> wanted{0, 1, 2, 5};
  std::map<std::uint64_t, ReplayRecord> written;
  std::map<std::uint64_t, ReplayRecord> forced;
  auto into = [](std::map<std::uint64_t, ReplayRecord>& records) {
    return [&records](const ReplayRecord& record) {
      records.emplace(record.request.value, record);
      return true;
    };
  };
  const KeepGoing always = [] { return true; };
  write_answers(target, prompts, wanted, {.max_tokens = 9, .concurrency = 3, .seed = 7}, pool, into(written), always);
  ASSERT_EQ(written.size(), wanted.size());
  for (auto& [id, record] : written) {
    prompts[id - 1].response.assign(record.tokens.begin() + record.prompt_tokens, record.tokens.end());
    EXPECT_LE(prompts[id - 1].response.size(), 9U);
    EXPECT_EQ(record.sampling.temperature, (id - 1) % 2 == 0 ? 0.0F : 0.8F);
  }
  force_answers(target, prompts, wanted, pool, into(forced), always);
  for (std::size_t index : wanted) {
    const ReplayRecord& a = written.at(index + 1);
    const ReplayRecord& b = forced.at(index + 1);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
    ASSERT_EQ(a.target.size(), b.target.size());
    for (std::size_t row = 0; row < a.target.size(); ++row) {
      EXPECT_EQ(a.target[row].ids, b.target[row].ids);
      ASSERT_EQ(a.target[row].logprobs.size(), b.target[row].logprobs.size());
      for (std::size_t i = 0; i < a.target[row].logprobs.size(); ++i) {
        EXPECT_NEAR(a.target[row].logprobs[i], b.target[row].logprobs[i], apart);
      }
      if (index % 2 == 0) {
        EXPECT_EQ(a.tokens[a.prompt_tokens + row], a.target[row].ids[0]) << "greedy";
      }
    }
  }
}

// Equal to the bit, since both are observed on the host.
TEST_F(WrittenAndGiven, AgreeOnTheCpu) {
  expect_agreement({ModelWeights::load(folder_ / "target", Dtype::kFloat32)}, 0);
}

// On a device, generated answers are observed on the device, where the logits are.
TEST_F(WrittenAndGiven, AgreeOnADevice) {
  const auto device = std::make_shared<kernels::cuda::HostQueue>();
  expect_agreement({ModelWeights::load(folder_ / "target", Dtype::kBFloat16), device}, 1e-5);
  EXPECT_GT(device->n_replays(), 0);
}

TEST_F(WarmupAnswersTest, ATornAnswerFileIsCutAndFilled) {
  WarmupOptions asked = options("sql");
  PromptsLeftOut left_out;
  const auto prompts = read_warmup_prompts(asked, left_out);
  kernels::ThreadPool pool(1);
  const AnsweringTarget target{ModelWeights::load(asked.target, Dtype::kFloat32)};
  const fs::path path = folder_ / "answers";
  {
    AnswerFile file(path);
    force_answers(
        target, prompts, {}, pool, [](const ReplayRecord&) { return true; }, [] { return true; });
    write_answers(
        target, prompts, {0, 1, 2}, {.max_tokens = 4}, pool,
        [&](const ReplayRecord& record) {
          file.append(record);
          return true;
        },
        [] { return true; });
    EXPECT_EQ(file.records().size(), 3U);
  }
  const auto whole = fs::file_size(path);
  fs::resize_file(path, whole - 5);
  AnswerFile torn(path);
  EXPECT_EQ(torn.records().size(), 2U);
  EXPECT_LT(fs::file_size(path), whole - 5);
}

}  // namespace
}  // namespace slip
