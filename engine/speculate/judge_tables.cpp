// SPDX-License-Identifier: Apache-2.0
#include "engine/speculate/judge_tables.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace slip {
namespace {

using kernels::cuda::DraftLaw;
using kernels::cuda::EditedRow;
using kernels::cuda::EditLogits;
using kernels::cuda::IdRange;
using kernels::cuda::ProposalRows;
using kernels::cuda::SaidToken;
using kernels::cuda::SequenceEdits;
using kernels::cuda::TokenBias;
using kernels::cuda::Transform;

constexpr std::size_t kBorder = 16;

Transform transform_of(const SamplingParams& sampling) {
  return {sampling.temperature, sampling.min_p, sampling.top_p, sampling.top_k};
}

// Only the rejection rule looks at what sampled tokens were drawn from.
bool is_judged_by_q(const JudgedProposal& judged) {
  return judged.sequence->rule == AcceptanceRule::kRejection && judged.proposal->law == ProposalLaw::kSampled;
}

}  // namespace

bool JudgeTables::Room::holds(const Room& other) const {
  return rows >= other.rows && said >= other.said && biases >= other.biases && ends >= other.ends &&
         q_entries >= other.q_entries;
}

JudgeTables::JudgeTables(kernels::cuda::DeviceQueue& queue, std::int32_t max_rows, std::int32_t vocab)
    : queue_(queue), times_said_(static_cast<std::size_t>(vocab), 0) {
  move_to({.rows = static_cast<std::size_t>(max_rows)});
}

JudgeTables::Layout JudgeTables::lay_out(const Room& room) {
  Layout layout;
  const auto take = [&]<class T>(Table<T>& table, std::size_t n) {
    table.at = layout.bytes;
    layout.bytes += (n * sizeof(T) + kBorder - 1) / kBorder * kBorder;
  };
  take(layout.transforms, room.rows);
  take(layout.addresses, room.rows);
  take(layout.proposals, room.rows);
  take(layout.tokens, room.rows);
  take(layout.parents, room.rows);
  take(layout.q, room.rows);
  take(layout.edited_rows, room.rows);
  take(layout.sequences, room.rows + 1);  // and one that edits nothing
  take(layout.said, room.said);
  take(layout.biases, room.biases);
  take(layout.ends, room.ends);
  take(layout.q_ids, room.q_entries);
  take(layout.q_probabilities, room.q_entries);
  return layout;
}

JudgeTables::Room JudgeTables::needed(std::span<const JudgedProposal> judged) const {
  Room needed;
  for (const JudgedProposal& one : judged) {
    const SamplingParams& sampling = *one.sequence->sampling;
    needed.rows += one.proposal->size() + 1;
    if (sampling.has_penalty()) needed.said += std::min(one.sequence->tokens.size(), times_said_.size());
    needed.biases += sampling.logit_bias.size();
    if (sampling.edits_logits()) needed.ends += one.sequence->end_ids.size();
    if (!is_judged_by_q(one)) continue;
    for (const Distribution& law : one.proposal->q) needed.q_entries += law.ids.size();
  }
  return needed;
}

void JudgeTables::move_to(const Room& room) {
  memory_.reset();
  layout_ = lay_out(room);
  memory_.emplace(queue_, layout_.bytes);
  std::fill_n(memory_->host.get(), layout_.bytes, std::byte{0});  // what nobody uses is copied too
  room_ = room;
}

// Twice what is needed, for answers grow by a token or so a step.
bool JudgeTables::make_room(std::span<const JudgedProposal> judged) {
  const Room wanted = needed(judged);
  SLIP_CHECK(wanted.rows <= room_.rows, "a pass has as many rows as its worker allows");
  if (memory_ && room_.holds(wanted)) return false;
  const auto grown = [](std::size_t now, std::size_t least) { return least <= now ? now : 2 * least; };
  move_to({room_.rows, grown(room_.said, wanted.said), grown(room_.biases, wanted.biases),
           grown(room_.ends, wanted.ends), grown(room_.q_entries, wanted.q_entries)});
  return true;
}

void JudgeTables::put(std::span<const JudgedProposal> judged, const JudgedGrid& grid) {
  used_ = {};
  const auto edits = [](const JudgedProposal& one) { return one.sequence->sampling->edits_logits(); };
  used_.edits = std::any_of(judged.begin(), judged.end(), edits);
  fill_up(grid, judged.size());
  for (std::size_t i = 0; i < judged.size(); ++i) add(judged[i], static_cast<std::int32_t>(i));
  copy_in(0, layout_.edited_rows.at);
  if (used_.edits) {
    const auto n_ends = static_cast<std::size_t>(used_.ends);
    copy_in(layout_.edited_rows.at, layout_.ends.at + n_ends * sizeof(std::int32_t));
  }
  if (used_.q_entries > 0) {
    copy_in(layout_.q_ids.at, layout_.q_ids.at + used_.q_entries * sizeof(std::int32_t));
    copy_in(layout_.q_probabilities.at, layout_.q_probabilities.at + used_.q_entries * sizeof(double));
  }
}

void JudgeTables::copy_in(std::size_t begin, std::size_t end) const {
  queue_.copy_in(memory_->device.get() + begin, memory_->host.get() + begin, end - begin);
}

// Rows of which only the best token is looked for, whose logits stay as they are, and no proposals.
void JudgeTables::fill_up(const JudgedGrid& grid, std::size_t n_judged) {
  SLIP_CHECK(static_cast<std::size_t>(std::max(grid.n_rows, grid.n_proposals)) <= room_.rows, "a grid within bounds");
  std::fill_n(on_host(layout_.transforms), grid.n_rows, Transform{.temperature = 0});
  std::fill_n(on_host(layout_.addresses), grid.n_rows, RandomAddress{});
  std::fill_n(on_host(layout_.proposals), grid.n_proposals, ProposalRows{.n_nodes = kernels::cuda::kNoProposal});
  if (!used_.edits) return;
  on_host(layout_.sequences)[n_judged] = {};
  std::fill_n(on_host(layout_.edited_rows), grid.n_rows, EditedRow{.sequence = static_cast<std::int32_t>(n_judged)});
}

void JudgeTables::add(const JudgedProposal& judged, std::int32_t index) {
  const SequenceRef& sequence = *judged.sequence;
  const Proposal& proposal = *judged.proposal;
  const bool coupled = sequence.rule == AcceptanceRule::kCoupled;
  SLIP_CHECK(proposal.size() <= kernels::cuda::kMostNodes, "a proposal has few nodes");
  SLIP_CHECK(coupled || proposal.law != ProposalLaw::kGumbel,
             "Gumbel proposals share the target's noise: judge them coupled");
  ProposalRows rows;
  rows.first_node = used_.nodes;
  rows.n_nodes = static_cast<std::int32_t>(proposal.size());
  rows.first_row = judged.first_row;
  rows.coupled = coupled;
  rows.deterministic = proposal.law == ProposalLaw::kDeterministic;
  rows.first = sequence.next_address();
  on_host(layout_.proposals)[index] = rows;
  used_.coupled |= coupled && sequence.sampling->temperature > 0;
  add_rows(judged, index);
  add_nodes(proposal, is_judged_by_q(judged));
}

// The row after each node, and before them that after the last committed token: a node's decides the output token
// behind its depth.
void JudgeTables::add_rows(const JudgedProposal& judged, std::int32_t index) {
  const SequenceRef& sequence = *judged.sequence;
  const auto n_nodes = static_cast<std::int32_t>(judged.proposal->size());
  depth_.assign(judged.proposal->size() + 1, 0);
  for (std::int32_t row = 0; row <= n_nodes; ++row) {
    const std::int32_t at = judged.first_row + row;
    if (row > 0) {
      const std::int32_t parent = judged.proposal->parents[static_cast<std::size_t>(row - 1)];
      depth_[static_cast<std::size_t>(row)] = depth_[static_cast<std::size_t>(parent + 1)] + 1;
    }
    RandomAddress address = sequence.next_address();
    address.output_index += static_cast<std::uint32_t>(depth_[static_cast<std::size_t>(row)]);
    on_host(layout_.transforms)[at] = transform_of(*sequence.sampling);
    on_host(layout_.addresses)[at] = address;
    if (used_.edits) {
      on_host(layout_.edited_rows)[at] = {.sequence = index, .first_node = used_.nodes, .node = row - 1};
    }
  }
  if (used_.edits) on_host(layout_.sequences)[index] = edits_of(sequence);
}

void JudgeTables::add_nodes(const Proposal& proposal, bool by_q) {
  const std::size_t n = proposal.size();
  SLIP_CHECK(!by_q || proposal.q.size() == n || proposal.device_q.size() == n, "sampled tokens come with their q");
  std::copy_n(proposal.tokens.begin(), n, on_host(layout_.tokens) + used_.nodes);
  std::copy_n(proposal.parents.begin(), n, on_host(layout_.parents) + used_.nodes);
  DraftLaw* q = on_host(layout_.q) + used_.nodes;
  for (std::size_t i = 0; by_q && i < n; ++i) {
    q[i] = proposal.q.empty() ? DraftLaw{.logits = proposal.device_q[i].logits, .law = proposal.device_q[i].law}
                              : add_law(proposal.q[i]);
  }
  used_.nodes += static_cast<std::int32_t>(n);
}

DraftLaw JudgeTables::add_law(const Distribution& law) {
  const std::size_t at = used_.q_entries, n = law.ids.size();
  std::copy_n(law.ids.begin(), n, on_host(layout_.q_ids) + at);
  std::copy_n(law.probabilities.begin(), n, on_host(layout_.q_probabilities) + at);
  used_.q_entries += n;
  return {.ids = on_device(layout_.q_ids) + at,
          .probabilities = on_device(layout_.q_probabilities) + at,
          .n = static_cast<std::int32_t>(n)};
}

SequenceEdits JudgeTables::edits_of(const SequenceRef& sequence) {
  const SamplingParams& sampling = *sequence.sampling;
  SequenceEdits edits;
  if (!sampling.edits_logits()) return edits;
  edits.penalties = {sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty};
  if (sampling.has_penalty()) edits.said = add_said(sequence);
  TokenBias* biases = on_host(layout_.biases);
  edits.biases.begin = used_.biases;
  for (const LogitBias& one : sampling.logit_bias) biases[used_.biases++] = {one.id, one.bias};
  edits.biases.end = used_.biases;
  std::sort(biases + edits.biases.begin, biases + edits.biases.end,
            [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
  edits.ends.begin = used_.ends;
  for (const std::int32_t id : sequence.end_ids) on_host(layout_.ends)[used_.ends++] = id;
  edits.ends.end = used_.ends;
  edits.n_answer = static_cast<std::int32_t>(sequence.tokens.size()) - sequence.prompt_tokens;
  edits.min_tokens = sampling.min_tokens;
  return edits;
}

// Each token that is committed, once.
IdRange JudgeTables::add_said(const SequenceRef& sequence) {
  SaidToken* said = on_host(layout_.said);
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

EditLogits JudgeTables::edits() const {
  EditLogits job;
  job.rows = on_device(layout_.edited_rows);
  job.sequences = on_device(layout_.sequences);
  job.said = on_device(layout_.said);
  job.biases = on_device(layout_.biases);
  job.ends = on_device(layout_.ends);
  job.tokens = tokens();
  job.parents = parents();
  return job;
}

}  // namespace slip
