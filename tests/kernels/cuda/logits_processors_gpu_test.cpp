// SPDX-License-Identifier: Apache-2.0
// Launched logits processors have the bits of the same bodies run on the host, which tests/engine/cuda/ holds against
// the CPU's transform.
#include <memory>

#include "tests/kernels/cuda/gpu_test.h"
#include "tests/kernels/cuda/host_grid.h"
#include "tests/kernels/cuda/logits_processor_cases.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels::cuda {
namespace {

constexpr std::int32_t kVocab = 32003;

// One sequence that asks for everything, after the last committed token and after each of a tree's nodes.
ProcessorCase everything() {
  ProcessorCase processors;
  processors.vocab = kVocab;
  processors.tokens = {3, 3, 31999, 12, 2};
  processors.parents = {-1, 0, 1, 1, 3};
  SequenceProcessors sequence;
  sequence.penalties = {1.25F, 0.5F, -0.25F};
  sequence.counts = appended(processors.counts, count_tokens({9, 3, 32002, 9, 3, 15, 16, 16}, 3));
  sequence.biases = appended<TokenBias>(processors.biases, {{0, 1.5F}, {3, -100}, {16, 0.25F}, {31998, 7}});
  sequence.ends = appended<std::int32_t>(processors.ends, {2, 32001});
  sequence.n_answer = 5;
  sequence.min_tokens = 7;
  processors.sequences.push_back(sequence);
  for (std::int32_t node = -1; node < 5; ++node) processors.rows.push_back({0, 0, node, node / 2 - 1, node % 2 == 0});
  processors.logits = random_floats(processors.rows.size() * kVocab, 1);
  for (std::uint64_t word = 1; word <= 2 * (kVocab + 63) / 64 + 1; ++word) {
    processors.masks.push_back(word * 0x9E3779B97F4A7C15U);
  }
  return processors;
}

using GpuLogitsProcessors = GpuTest;

TEST_F(GpuLogitsProcessors, HaveTheHostsBits) {
  const ProcessorCase processors = everything();
  std::vector<float> expected;
  ProcessLogits job = processors.job(expected);
  const auto n_rows = static_cast<int>(processors.rows.size());
  const auto shared = std::make_unique<ProcessShared>();
  run_on_host<kVocabularyThreads>({n_rows, kRowParts},
                                  [&](const VocabularyBlock& block) { process_part(block, job, *shared); });

  const DeviceArray<float> logits(processors.logits), processed(std::vector<float>(expected.size(), 1e9F));
  const DeviceArray<ProcessedRow> rows(processors.rows);
  const DeviceArray<SequenceProcessors> sequences(processors.sequences);
  const DeviceArray<TokenCount> counts(processors.counts);
  const DeviceArray<TokenBias> biases(processors.biases);
  const DeviceArray<std::int32_t> ends(processors.ends), tokens(processors.tokens), parents(processors.parents);
  const DeviceArray<std::uint64_t> masks(processors.masks);
  job.logits = logits.get();
  job.rows = rows.get();
  job.sequences = sequences.get();
  job.counts = counts.get();
  job.biases = biases.get();
  job.ends = ends.get();
  job.tokens = tokens.get();
  job.parents = parents.get();
  job.masks = masks.get();
  job.processed = processed.get();
  enqueue(job, n_rows, cudaStream_t{});
  EXPECT_EQ(processed.values(), expected);
}

}  // namespace
}  // namespace slip::kernels::cuda
