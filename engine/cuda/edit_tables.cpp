// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/edit_tables.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace slip {

using kernels::cuda::EditedRow;
using kernels::cuda::EditLogits;
using kernels::cuda::IdRange;
using kernels::cuda::SaidToken;
using kernels::cuda::SequenceEdits;
using kernels::cuda::TokenBias;

EditTables::EditTables(kernels::cuda::DeviceQueue& queue, std::size_t max_rows, std::size_t max_sequences,
                       std::int32_t vocab)
    : queue_(queue),
      max_rows_(max_rows),
      max_sequences_(max_sequences),
      times_said_(static_cast<std::size_t>(vocab), 0) {
  move_to({});
}

void EditTables::need(const SequenceRef& sequence, Room& room) const {
  const SamplingParams& sampling = *sequence.sampling;
  if (!sampling.edits_logits()) return;
  if (sampling.has_penalty()) room.said += std::min(sequence.tokens.size(), times_said_.size());
  room.biases += sampling.logit_bias.size();
  room.ends += sequence.end_ids.size();
}

void EditTables::move_to(const Room& room) {
  tables_.reset();
  TableLayout layout;
  layout_.rows = layout.take<EditedRow>(max_rows_);
  layout_.sequences = layout.take<SequenceEdits>(max_sequences_ + 1);
  layout_.said = layout.take<SaidToken>(room.said);
  layout_.biases = layout.take<TokenBias>(room.biases);
  layout_.ends = layout.take<std::int32_t>(room.ends);
  tables_.emplace(queue_, layout.bytes);
  room_ = room;
}

// Twice what is needed, for answers grow by a token or so a step.
bool EditTables::make_room(const Room& needed) {
  if (tables_ && needed.said <= room_.said && needed.biases <= room_.biases && needed.ends <= room_.ends) return false;
  const auto grown = [](std::size_t now, std::size_t least) { return least <= now ? now : 2 * least; };
  move_to({grown(room_.said, needed.said), grown(room_.biases, needed.biases), grown(room_.ends, needed.ends)});
  return true;
}

void EditTables::start(std::size_t n_rows) {
  SLIP_CHECK(n_rows <= max_rows_, "more rows than the tables were made for");
  used_ = {.rows = n_rows};
  std::fill_n(tables_->on_host(layout_.rows), n_rows, EditedRow{});
  tables_->on_host(layout_.sequences)[0] = {};
}

std::int32_t EditTables::add(const SequenceRef& sequence) {
  const SamplingParams& sampling = *sequence.sampling;
  if (!sampling.edits_logits()) return 0;
  SLIP_CHECK(used_.sequences <= static_cast<std::int32_t>(max_sequences_), "more sequences than there is room for");
  SequenceEdits edits;
  edits.penalties = {sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty};
  if (sampling.has_penalty()) edits.said = add_said(sequence);
  edits.biases = add_biases(sampling);
  edits.ends.begin = used_.ends;
  for (const std::int32_t id : sequence.end_ids) tables_->on_host(layout_.ends)[used_.ends++] = id;
  edits.ends.end = used_.ends;
  edits.n_answer = static_cast<std::int32_t>(sequence.tokens.size()) - sequence.prompt_tokens;
  edits.min_tokens = sampling.min_tokens;
  tables_->on_host(layout_.sequences)[used_.sequences] = edits;
  return used_.sequences++;
}

IdRange EditTables::add_biases(const SamplingParams& sampling) {
  TokenBias* biases = tables_->on_host(layout_.biases);
  const std::int32_t begin = used_.biases;
  for (const LogitBias& one : sampling.logit_bias) biases[used_.biases++] = {one.id, one.bias};
  std::sort(biases + begin, biases + used_.biases, [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
  return {begin, used_.biases};
}

// Each token that is committed, once.
IdRange EditTables::add_said(const SequenceRef& sequence) {
  SaidToken* said = tables_->on_host(layout_.said);
  const std::int32_t begin = used_.said;
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
    const std::int32_t id = sequence.tokens[i];
    std::int32_t& times = times_said_[static_cast<std::size_t>(id)];
    if (times == 0) said[used_.said++].id = id;
    const bool in_prompt = static_cast<std::int32_t>(i) < sequence.prompt_tokens;
    times = in_prompt ? kernels::kInPromptOnly : kernels::said_again(times, 1);
  }
  std::sort(said + begin, said + used_.said, [](const SaidToken& a, const SaidToken& b) { return a.id < b.id; });
  for (std::int32_t i = begin; i < used_.said; ++i) {
    said[i].times = std::exchange(times_said_[static_cast<std::size_t>(said[i].id)], 0);
  }
  return {begin, used_.said};
}

void EditTables::put() const {
  tables_->put(layout_.rows.at, layout_.rows.end(used_.rows));
  tables_->put(layout_.sequences.at, layout_.ends.end(static_cast<std::size_t>(used_.ends)));
}

EditLogits EditTables::job() const {
  EditLogits job;
  job.rows = tables_->on_device(layout_.rows);
  job.sequences = tables_->on_device(layout_.sequences);
  job.said = tables_->on_device(layout_.said);
  job.biases = tables_->on_device(layout_.biases);
  job.ends = tables_->on_device(layout_.ends);
  return job;
}

}  // namespace slip
