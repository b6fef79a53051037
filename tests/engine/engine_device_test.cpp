// SPDX-License-Identifier: Apache-2.0
// A whole engine whose target runs on a device, its kernels' bodies run on the host: with speculation the answers are,
// to the bit of their raw logits, those without.
#include <gtest/gtest.h>

#include "tests/engine/engine_answers.h"
#include "tests/engine/model/device_bench.h"
#include "tests/engine/tiny_draft.h"

namespace slip {
namespace {

using testing::Answer;
using testing::tiny_draft;
using testing::tiny_draft_config;

constexpr std::int32_t kVocab = 120;

struct Case {
  SamplingParams sampling;
  std::int32_t k = 0, concurrency = 1, prefill_chunk = 16;
};

std::vector<Answer> answers_of(const Case& run) {
  const auto weights = tiny_draft(tiny_draft_config(kVocab), 1);
  kernels::ThreadPool pool(1);
  const auto queue = std::make_shared<kernels::cuda::HostQueue>();
  auto worker = std::make_unique<DeviceWorker>(queue, *weights, 100, 40, 64);
  const auto slot = testing::draft_slot(weights);  // in float32 on the CPU, so it is nearly always right
  EngineOptions options{.k = run.k, .max_running = run.concurrency, .prefill_chunk = run.prefill_chunk};
  Engine engine(options, std::move(worker), nullptr, pool, nullptr, {});
  std::vector<Answer> answers(3);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::vector<std::int32_t> prompt;
    for (std::size_t j = 0; j < 5 + 14 * i; ++j) prompt.push_back(static_cast<std::int32_t>((7 * j + 3 * i) % kVocab));
    Request request = testing::full_request(i + 1, prompt, answers[i]);
    request.sampling = run.sampling;
    request.max_tokens = 14;
    request.draft = slot;
    engine.submit(std::move(request));
  }
  EXPECT_TRUE(testing::drain(engine));
  return answers;
}

TEST(EngineOnADevice, SpeculationChangesNoBit) {
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.7F, .top_p = 0.9F, .seed = 42}}) {
    const auto plain = answers_of({sampling});
    std::int32_t accepted = 0;
    for (const Case& run : {Case{sampling, 1}, Case{sampling, 4, 3}, Case{sampling, 8, 2, 7}}) {
      const auto answers = answers_of(run);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i].same_as(plain[i])) << "k " << run.k << " answer " << i;
        EXPECT_NE(answers[i].summary.figures.checksum, 0U);
        accepted += answers[i].summary.figures.accepted;
      }
    }
    EXPECT_GT(accepted, 40);
  }
}

}  // namespace
}  // namespace slip
