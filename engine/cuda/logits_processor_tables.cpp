// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/logits_processor_tables.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace slip {

using kernels::cuda::IdRange;
using kernels::cuda::ProcessedRow;
using kernels::cuda::ProcessLogits;
using kernels::cuda::SequenceProcessors;
using kernels::cuda::TokenBias;
using kernels::cuda::TokenCount;

LogitsProcessorTables::LogitsProcessorTables(kernels::cuda::DeviceQueue& queue, std::size_t max_rows,
                                             std::size_t max_sequences, std::int32_t vocab)
    : queue_(queue), max_rows_(max_rows), max_sequences_(max_sequences), counts_(static_cast<std::size_t>(vocab), 0) {
  move_to({});
}

void LogitsProcessorTables::need(const SequenceRef& sequence, Room& room) const {
  const SamplingParams& sampling = *sequence.sampling;
  if (!sampling.processes_logits()) return;
  if (sampling.has_penalty()) room.counts += std::min(sequence.tokens.size(), counts_.size());
  room.biases += sampling.logit_bias.size();
  room.ends += sequence.end_ids.size();
}

void LogitsProcessorTables::move_to(const Room& room) {
  tables_.reset();
  TableLayout layout;
  layout_.rows = layout.take<ProcessedRow>(max_rows_);
  layout_.sequences = layout.take<SequenceProcessors>(max_sequences_ + 1);
  layout_.counts = layout.take<TokenCount>(room.counts);
  layout_.biases = layout.take<TokenBias>(room.biases);
  layout_.ends = layout.take<std::int32_t>(room.ends);
  tables_.emplace(queue_, layout.bytes);
  room_ = room;
}

// Takes twice the needed room, since answers grow every step.
bool LogitsProcessorTables::make_room(const Room& needed) {
  if (tables_ && needed.counts <= room_.counts && needed.biases <= room_.biases && needed.ends <= room_.ends)
    return false;
  const auto grown = [](std::size_t now, std::size_t least) { return least <= now ? now : 2 * least; };
  move_to({grown(room_.counts, needed.counts), grown(room_.biases, needed.biases), grown(room_.ends, needed.ends)});
  return true;
}

void LogitsProcessorTables::start(std::size_t n_rows) {
  SLIP_CHECK(n_rows <= max_rows_, "more rows than the tables were made for");
  used_ = {.rows = n_rows};
  std::fill_n(tables_->on_host(layout_.rows), n_rows, ProcessedRow{});
  tables_->on_host(layout_.sequences)[0] = {};
}

std::int32_t LogitsProcessorTables::add(const SequenceRef& sequence) {
  const SamplingParams& sampling = *sequence.sampling;
  if (!sampling.processes_logits()) return 0;
  SLIP_CHECK(used_.sequences <= static_cast<std::int32_t>(max_sequences_), "more sequences than there is room for");
  SequenceProcessors processors;
  processors.penalties = {sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty};
  if (sampling.has_penalty()) processors.counts = add_counts(sequence);
  processors.biases = add_biases(sampling);
  processors.ends.begin = used_.ends;
  for (const std::int32_t id : sequence.end_ids) tables_->on_host(layout_.ends)[used_.ends++] = id;
  processors.ends.end = used_.ends;
  processors.n_answer = static_cast<std::int32_t>(sequence.tokens.size()) - sequence.prompt_tokens;
  processors.min_tokens = sampling.min_tokens;
  tables_->on_host(layout_.sequences)[used_.sequences] = processors;
  return used_.sequences++;
}

IdRange LogitsProcessorTables::add_biases(const SamplingParams& sampling) {
  TokenBias* biases = tables_->on_host(layout_.biases);
  const std::int32_t begin = used_.biases;
  for (const LogitBias& one : sampling.logit_bias) biases[used_.biases++] = {one.id, one.bias};
  std::sort(biases + begin, biases + used_.biases, [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
  return {begin, used_.biases};
}

// Adds one entry per distinct committed token.
IdRange LogitsProcessorTables::add_counts(const SequenceRef& sequence) {
  TokenCount* counts = tables_->on_host(layout_.counts);
  const std::int32_t begin = used_.counts;
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
    const std::int32_t id = sequence.tokens[i];
    std::int32_t& times = counts_[static_cast<std::size_t>(id)];
    if (times == 0) counts[used_.counts++].id = id;
    const bool in_prompt = static_cast<std::int32_t>(i) < sequence.prompt_tokens;
    times = in_prompt ? kernels::kInPromptOnly : kernels::counted_again(times, 1);
  }
  std::sort(counts + begin, counts + used_.counts,
            [](const TokenCount& a, const TokenCount& b) { return a.id < b.id; });
  for (std::int32_t i = begin; i < used_.counts; ++i) {
    counts[i].times = std::exchange(counts_[static_cast<std::size_t>(counts[i].id)], 0);
  }
  return {begin, used_.counts};
}

void LogitsProcessorTables::put() const {
  tables_->put(layout_.rows.at, layout_.rows.end(used_.rows));
  tables_->put(layout_.sequences.at, layout_.ends.end(static_cast<std::size_t>(used_.ends)));
}

ProcessLogits LogitsProcessorTables::job() const {
  ProcessLogits job;
  job.rows = tables_->on_device(layout_.rows);
  job.sequences = tables_->on_device(layout_.sequences);
  job.counts = tables_->on_device(layout_.counts);
  job.biases = tables_->on_device(layout_.biases);
  job.ends = tables_->on_device(layout_.ends);
  return job;
}

}  // namespace slip
