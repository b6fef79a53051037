// SPDX-License-Identifier: Apache-2.0
// The device's logits processors, run on the host, against the CPU's transform: bit for bit, for the arithmetic is the
// same in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>

#include "engine/grammar/token_masks.h"
#include "engine/sampling/distribution.h"
#include "tests/kernels/cuda/host_grid.h"
#include "tests/kernels/cuda/logits_processor_cases.h"

namespace slip {
namespace {

using namespace kernels::cuda;  // NOLINT: the tested names are its

constexpr std::int32_t kVocab = 1003;  // no multiple of a mask's words or a row's parts
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// One sequence: what its request asks, its committed tokens, and a tree proposed after them.
struct Asked {
  SamplingParams params;
  std::vector<std::int32_t> committed, ends, tokens, parents;
  std::size_t n_prompt = 0;

  std::vector<std::int32_t> path_to(std::int32_t node) const {
    std::vector<std::int32_t> way;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)])
      way.push_back(tokens[static_cast<std::size_t>(node)]);
    std::vector<std::int32_t> path = committed;
    path.insert(path.end(), way.rbegin(), way.rend());
    return path;
  }
  RowContext context(const std::vector<std::int32_t>& path) const {
    return {path, static_cast<std::int32_t>(n_prompt), ends, nullptr};
  }
};

SequenceProcessors add_sequence(ProcessorCase& to, const Asked& asked) {
  SequenceProcessors out;
  const SamplingParams& params = asked.params;
  out.penalties = {params.repetition_penalty, params.presence_penalty, params.frequency_penalty};
  if (params.has_penalty()) out.counts = appended(to.counts, count_tokens(asked.committed, asked.n_prompt));
  std::vector<TokenBias> biases;
  for (const LogitBias& one : params.logit_bias) biases.push_back({one.id, one.bias});
  std::sort(biases.begin(), biases.end(), [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
  out.biases = appended(to.biases, biases);
  out.ends = appended(to.ends, asked.ends);
  out.n_answer = static_cast<std::int32_t>(asked.committed.size() - asked.n_prompt);
  out.min_tokens = params.min_tokens;
  return out;
}

// A row after the last committed token and one after each node.
void add_rows(ProcessorCase& to, const Asked& asked, std::mt19937& random) {
  const auto sequence = static_cast<std::int32_t>(to.sequences.size());
  const auto first_node = static_cast<std::int32_t>(to.tokens.size());
  to.sequences.push_back(add_sequence(to, asked));
  to.tokens.insert(to.tokens.end(), asked.tokens.begin(), asked.tokens.end());
  to.parents.insert(to.parents.end(), asked.parents.begin(), asked.parents.end());
  std::normal_distribution<float> normal(0, 3);
  for (std::int32_t node = -1; node < static_cast<std::int32_t>(asked.tokens.size()); ++node) {
    to.rows.push_back({sequence, first_node, node});
    for (std::int32_t id = 0; id < kVocab; ++id) to.logits.push_back(normal(random));
  }
}

std::vector<float> process_on_host(const ProcessorCase& processors) {
  std::vector<float> processed;
  const ProcessLogits job = processors.job(processed);
  const auto shared = std::make_unique<ProcessShared>();
  run_on_host<kVocabularyThreads>({static_cast<int>(processors.rows.size()), kRowParts},
                                  [&](const VocabularyBlock& block) { process_part(block, job, *shared); });
  return processed;
}

std::vector<float> row_of(const std::vector<float>& rows, std::size_t row) {
  const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(row * kVocab);
  return {begin, begin + kVocab};
}

// A request that asks for the things whose bits are set: 0 penalties, 1 bias, 2 a minimum length.
Asked asked_for(unsigned things, std::mt19937& random) {
  Asked out;
  const auto token = [&] { return static_cast<std::int32_t>(random() % 40); };  // few, so that they come again
  out.n_prompt = 30;
  for (int i = 0; i < 47; ++i) out.committed.push_back(token());
  out.ends = {7, 1002};
  out.tokens = {token(), token(), token(), 7, token(), token()};
  out.parents = {-1, 0, 0, 1, 3, -1};
  if ((things & 1) != 0) {
    out.params.repetition_penalty = 1.3F;
    out.params.presence_penalty = 0.7F;
    out.params.frequency_penalty = -0.2F;
  }
  if ((things & 2) != 0) out.params.logit_bias = {{1001, 3.25F}, {5, -100}, {7, 0.5F}, {0, -0.125F}, {64, 1e-3F}};
  if ((things & 4) != 0) out.params.min_tokens = 19;  // 17 are committed: reached two nodes down
  return out;
}

TEST(DeviceLogitsProcessorsTest, EveryRowIsTheCpusToTheBit) {
  std::mt19937 random(1);
  std::vector<Asked> requests;
  ProcessorCase processors;
  processors.vocab = kVocab;
  for (unsigned things = 0; things < 8; ++things) {
    requests.push_back(asked_for(things, random));
    add_rows(processors, requests.back(), random);
  }
  const auto processed = process_on_host(processors);
  std::size_t n_differ = 0;
  for (std::size_t row = 0; row < processors.rows.size(); ++row) {
    const ProcessedRow& at = processors.rows[row];
    const Asked& asked = requests[static_cast<std::size_t>(at.sequence)];
    const auto path = asked.path_to(at.node);
    Distribution expected, got;
    transform_logits(row_of(processors.logits, row), asked.params, asked.context(path), expected);
    transform_logits(row_of(processed, row), {}, {}, got);
    ASSERT_EQ(got.ids, expected.ids) << "row " << row;
    ASSERT_EQ(got.probabilities, expected.probabilities) << "row " << row;
    n_differ += row_of(processed, row) != row_of(processors.logits, row) ? 1 : 0;
    if (!asked.params.processes_logits()) {
      EXPECT_EQ(row_of(processed, row), row_of(processors.logits, row));
    }
  }
  EXPECT_EQ(n_differ, 6 * 7 + 3U) << "four of a request with a minimum length alone have reached it";
}

TEST(DeviceLogitsProcessorsTest, NegativeAPathThatIsLeftOutIsNoticed) {
  std::mt19937 random(2);
  const Asked asked = asked_for(1, random);
  ProcessorCase processors;
  processors.vocab = kVocab;
  add_rows(processors, asked, random);
  const auto path = asked.path_to(4);
  processors.rows[5].node = -1;
  Distribution expected, got;
  transform_logits(row_of(processors.logits, 5), asked.params, asked.context(path), expected);
  transform_logits(row_of(process_on_host(processors), 5), {}, {}, got);
  EXPECT_NE(got.probabilities, expected.probabilities);
}

TEST(DeviceLogitsProcessorsTest, AMaskKeepsWhatTheCpuKeeps) {
  std::mt19937 random(3);
  const Asked asked = asked_for(7, random);
  ProcessorCase processors;
  processors.vocab = kVocab;
  add_rows(processors, asked, random);
  const auto without = process_on_host(processors);
  std::vector<TokenMask> masks;
  for (std::size_t row = 0; row < processors.rows.size(); ++row) {
    TokenMask mask{{}, row % 2 == 1};
    for (std::size_t word = 0; word < (kVocab + 63) / 64; ++word) {
      mask.bits.push_back(std::uint64_t{random()} << 32 | random());
    }
    processors.rows[row].mask = static_cast<std::int32_t>(row);
    processors.rows[row].may_end = mask.ends;
    processors.masks.insert(processors.masks.end(), mask.bits.begin(), mask.bits.end());
    masks.push_back(std::move(mask));
  }
  const auto processed = process_on_host(processors);
  for (std::size_t row = 0; row < processors.rows.size(); ++row) {
    auto expected = row_of(without, row);
    keep_allowed(masks[row], asked.ends, expected);
    EXPECT_EQ(row_of(processed, row), expected) << row;
  }
}

TEST(DeviceLogitsProcessorsTest, AMaskOfNothingLeavesNothingPossible) {
  std::mt19937 random(4);
  const Asked asked = asked_for(0, random);
  ProcessorCase processors;
  processors.vocab = kVocab;
  add_rows(processors, asked, random);
  processors.masks.assign((kVocab + 63) / 64, 0);
  processors.rows[0].mask = 0;
  processors.rows[0].may_end = false;
  const auto processed = row_of(process_on_host(processors), 0);
  EXPECT_EQ(processed, std::vector<float>(kVocab, kImpossible));
  const Transform transform;
  RowDistribution distribution;
  const MakeDistributions job{processed.data(), kVocab, kVocab, &transform, &distribution};
  const auto shared = std::make_unique<DistributionShared>();
  run_on_host<kVocabularyThreads>({}, [&](const VocabularyBlock& block) { make_distribution(block, job, *shared); });
  EXPECT_EQ(distribution.state, DistributionState::kNothingPossible);
}

}  // namespace
}  // namespace slip
