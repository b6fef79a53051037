// SPDX-License-Identifier: Apache-2.0
// Logits processors: a request's bias, minimum length, penalties and grammar mask, applied before sampling, in the
// order and with the arithmetic of engine/sampling/transform.cpp. Writes processed copies; the raw rows are kept for
// observation and logprobs. A row's preceding tokens are read on the device, so drafted tokens need not be copied to
// the host first.
#pragma once

#include "kernels/cuda/sample.cuh"
#include "kernels/logits_processors.h"

namespace slip::kernels::cuda {

struct TokenCount {
  std::int32_t id = 0, times = 0;  // times: count in the answer, or kInPromptOnly
};
struct TokenBias {
  std::int32_t id = 0;
  float bias = 0;
};

// A sequence's part, equal for all its rows. Ranges index the job's lists; within each, ids ascend and are distinct.
struct SequenceProcessors {
  Penalties penalties;
  IdRange counts = {0, 0};  // of the committed tokens; empty without a penalty
  IdRange biases = {0, 0};
  IdRange ends = {0, 0};      // the end tokens
  std::int32_t n_answer = 0;  // committed tokens of the answer
  std::int32_t min_tokens = 0;
};

// The token that a row of logits follows: node `node` of its sequence's proposal; −1: the last committed token.
struct ProcessedRow {
  std::int32_t sequence = 0;
  std::int32_t first_node = 0;  // index of the proposal's first node in tokens and parents
  std::int32_t node = -1;
  std::int32_t mask = -1;  // index of its grammar mask; −1: none
  bool may_end = true;     // with a mask: whether end tokens are allowed, regardless of the mask
};

// Grid (x, y): part y of row x.
struct ProcessLogits {
  const float* logits = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
  std::int32_t vocab = 0;
  const ProcessedRow* rows = nullptr;             // [n_rows]
  const SequenceProcessors* sequences = nullptr;  // [n_sequences]
  const TokenCount* counts = nullptr;
  const TokenBias* biases = nullptr;
  const std::int32_t* ends = nullptr;
  const std::int32_t* tokens = nullptr;   // [Σ n_nodes], as in Accept
  const std::int32_t* parents = nullptr;  // [Σ n_nodes]
  const std::uint64_t* masks = nullptr;   // [n_masks, mask_words()]; bit id % 64 of word id / 64: allowed
  float* processed = nullptr;             // [n_rows, processed_stride]; must not overlap the logits
  std::int64_t processed_stride = 0;

  SLIP_DEVICE std::int64_t mask_words() const { return (std::int64_t{vocab} + 63) / 64; }
};

// The index of `id` in a list with ascending ids, or −1.
template <class Listed>
SLIP_DEVICE std::int32_t place_of(const Listed* list, IdRange range, std::int32_t id) {
  while (range.begin < range.end) {
    const std::int32_t middle = range.begin + (range.end - range.begin) / 2;
    if (list[middle].id == id) return middle;
    if (list[middle].id < id) {
      range.begin = middle + 1;
    } else {
      range.end = middle;
    }
  }
  return -1;
}

struct ProcessShared {
  std::int32_t path[kMostNodes];  // tokens from the row's node up to the proposal's root
  std::int32_t n_path;
};

// The logits processors of one row, token by token.
struct TokenProcessors {
  const ProcessLogits* job;
  const ProcessedRow* row;
  const SequenceProcessors* sequence;
  const ProcessShared* shared;
  const float* logits;

  SLIP_DEVICE bool is_too_early_to_end() const { return sequence->n_answer + shared->n_path < sequence->min_tokens; }
  SLIP_DEVICE bool is_end(std::int32_t id) const {
    for (std::int32_t i = sequence->ends.begin; i < sequence->ends.end; ++i) {
      if (job->ends[i] == id) return true;
    }
    return false;
  }
  SLIP_DEVICE bool is_allowed(std::int32_t id) const {
    if (is_end(id)) return row->may_end;
    return (job->masks[row->mask * job->mask_words() + id / 64] >> (id % 64) & 1) != 0;
  }
  SLIP_DEVICE std::int32_t count_of(std::int32_t id) const {
    const std::int32_t at = place_of(job->counts, sequence->counts, id);
    const std::int32_t times = at < 0 ? 0 : job->counts[at].times;
    std::int32_t more = 0;
    for (std::int32_t i = 0; i < shared->n_path; ++i) more += shared->path[i] == id ? 1 : 0;
    return more > 0 ? counted_again(times, more) : times;
  }
  SLIP_DEVICE float with_length(std::int32_t id, float logit) const {
    return is_too_early_to_end() && is_end(id) ? -infinity() : logit;
  }
  SLIP_DEVICE float with_mask(std::int32_t id, float logit) const {
    return row->mask >= 0 && !is_allowed(id) ? -infinity() : logit;
  }
  // The processed logit of a token without bias that does not occur in the text.
  SLIP_DEVICE float plain(std::int32_t id) const { return with_mask(id, with_length(id, logits[id])); }
  // The processed logit of any token.
  SLIP_DEVICE float whole(std::int32_t id) const {
    float logit = logits[id];
    const std::int32_t at = place_of(job->biases, sequence->biases, id);
    if (at >= 0) logit += job->biases[at].bias;
    logit = with_length(id, logit);
    const std::int32_t times = count_of(id);
    if (times != 0) logit = penalise(logit, sequence->penalties, times);
    return with_mask(id, logit);
  }
};

SLIP_DEVICE void process_part(const VocabularyBlock& block, const ProcessLogits& job, ProcessShared& shared) {
  const ProcessedRow row = job.rows[block.x];
  const SequenceProcessors sequence = job.sequences[row.sequence];
  block.each([&](int thread) {
    if (thread != 0) return;
    std::int32_t n = 0;
    for (std::int32_t node = row.node; node >= 0; node = job.parents[row.first_node + node]) {
      shared.path[n++] = job.tokens[row.first_node + node];
    }
    shared.n_path = n;
  });
  const TokenProcessors processors{&job, &row, &sequence, &shared, job.logits + block.x * job.stride};
  float* processed = job.processed + block.x * job.processed_stride;
  const IdRange ids = part_of(job.vocab, block.y);
  block.each([&](int thread) {
    for (std::int32_t id = ids.begin + thread; id < ids.end; id += kVocabularyThreads)
      processed[id] = processors.plain(id);
  });
  // Recompute the tokens in the lists. A token in two lists gets the same number twice.
  const auto redo = [&](std::int32_t id) {
    if (id >= ids.begin && id < ids.end) processed[id] = processors.whole(id);
  };
  block.each_apart([&](int thread) {
    for (std::int32_t i = sequence.counts.begin + thread; i < sequence.counts.end; i += kVocabularyThreads)
      redo(job.counts[i].id);
    for (std::int32_t i = sequence.biases.begin + thread; i < sequence.biases.end; i += kVocabularyThreads) {
      redo(job.biases[i].id);
    }
    if (thread < shared.n_path) redo(shared.path[thread]);
  });
}

}  // namespace slip::kernels::cuda
