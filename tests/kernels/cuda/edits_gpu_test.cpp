// SPDX-License-Identifier: Apache-2.0
// Launched edits of logits have the bits of the same bodies run on the host, which tests/engine/cuda/ holds against the
// CPU's transform.
#include <memory>

#include "tests/kernels/cuda/edit_cases.h"
#include "tests/kernels/cuda/gpu_test.h"
#include "tests/kernels/cuda/host_grid.h"
#include "tests/kernels/kernel_cases.h"

namespace slip::kernels::cuda {
namespace {

constexpr std::int32_t kVocab = 32003;

// One sequence that asks for everything, after the last committed token and after each of a tree's nodes.
EditCase everything() {
  EditCase edits;
  edits.vocab = kVocab;
  edits.tokens = {3, 3, 31999, 12, 2};
  edits.parents = {-1, 0, 1, 1, 3};
  SequenceEdits sequence;
  sequence.penalties = {1.25F, 0.5F, -0.25F};
  sequence.said = appended(edits.said, count_said({9, 3, 32002, 9, 3, 15, 16, 16}, 3));
  sequence.biases = appended<TokenBias>(edits.biases, {{0, 1.5F}, {3, -100}, {16, 0.25F}, {31998, 7}});
  sequence.ends = appended<std::int32_t>(edits.ends, {2, 32001});
  sequence.n_answer = 5;
  sequence.min_tokens = 7;
  edits.sequences.push_back(sequence);
  for (std::int32_t node = -1; node < 5; ++node) edits.rows.push_back({0, 0, node, node / 2 - 1, node % 2 == 0});
  edits.logits = random_floats(edits.rows.size() * kVocab, 1);
  for (std::uint64_t word = 1; word <= 2 * (kVocab + 63) / 64 + 1; ++word) {
    edits.masks.push_back(word * 0x9E3779B97F4A7C15U);
  }
  return edits;
}

using GpuEdits = GpuTest;

TEST_F(GpuEdits, HaveTheHostsBits) {
  const EditCase edits = everything();
  std::vector<float> expected;
  EditLogits job = edits.job(expected);
  const auto n_rows = static_cast<int>(edits.rows.size());
  const auto shared = std::make_unique<EditShared>();
  run_on_host<kVocabularyThreads>({n_rows, kRowParts},
                                  [&](const VocabularyBlock& block) { edit_part(block, job, *shared); });

  const DeviceArray<float> logits(edits.logits), edited(std::vector<float>(expected.size(), 1e9F));
  const DeviceArray<EditedRow> rows(edits.rows);
  const DeviceArray<SequenceEdits> sequences(edits.sequences);
  const DeviceArray<SaidToken> said(edits.said);
  const DeviceArray<TokenBias> biases(edits.biases);
  const DeviceArray<std::int32_t> ends(edits.ends), tokens(edits.tokens), parents(edits.parents);
  const DeviceArray<std::uint64_t> masks(edits.masks);
  job.logits = logits.get();
  job.rows = rows.get();
  job.sequences = sequences.get();
  job.said = said.get();
  job.biases = biases.get();
  job.ends = ends.get();
  job.tokens = tokens.get();
  job.parents = parents.get();
  job.masks = masks.get();
  job.edited = edited.get();
  enqueue(job, n_rows, cudaStream_t{});
  EXPECT_EQ(edited.values(), expected);
}

}  // namespace
}  // namespace slip::kernels::cuda
