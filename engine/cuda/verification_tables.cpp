// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/verification_tables.h"

#include <algorithm>

#include "common/error.h"
#include "engine/cuda/device_distribution.h"

namespace slip {
namespace {

using kernels::cuda::DraftDistribution;
using kernels::cuda::ProcessLogits;
using kernels::cuda::ProposalRows;
using kernels::cuda::Transform;

// Only the rejection rule needs the q of sampled tokens.
bool is_verified_by_q(const VerifiedProposal& verified) {
  return verified.sequence->rule == AcceptanceRule::kRejection &&
         verified.proposal->draw_method == DrawMethod::kSampled;
}

}  // namespace

VerificationTables::VerificationTables(kernels::cuda::DeviceQueue& queue, std::int32_t max_rows, std::int32_t vocab)
    : queue_(queue), max_rows_(static_cast<std::size_t>(max_rows)), processors_(queue, max_rows_, max_rows_, vocab) {
  move_to(/*q_entries=*/0);
}

VerificationTables::Room VerificationTables::needed(std::span<const VerifiedProposal> verified) const {
  Room needed;
  std::size_t n_rows = 0;
  for (const VerifiedProposal& one : verified) {
    n_rows += one.proposal->size() + 1;
    processors_.need(*one.sequence, needed.processors);
    if (!is_verified_by_q(one)) continue;
    for (const Distribution& distribution : one.proposal->q) needed.q_entries += distribution.ids.size();
  }
  SLIP_CHECK(n_rows <= max_rows_, "a pass has as many rows as its worker allows");
  return needed;
}

void VerificationTables::move_to(std::size_t q_entries) {
  tables_.reset();
  TableLayout layout;
  layout_.transforms = layout.take<Transform>(max_rows_);
  layout_.addresses = layout.take<RandomAddress>(max_rows_);
  layout_.proposals = layout.take<ProposalRows>(max_rows_);
  layout_.tokens = layout.take<std::int32_t>(max_rows_);
  layout_.parents = layout.take<std::int32_t>(max_rows_);
  layout_.q = layout.take<DraftDistribution>(max_rows_);
  layout_.q_ids = layout.take<std::int32_t>(q_entries);
  layout_.q_probabilities = layout.take<double>(q_entries);
  tables_.emplace(queue_, layout.bytes);
  q_room_ = q_entries;
}

// Takes twice the needed room, since distributions grow and shrink.
bool VerificationTables::make_room(std::span<const VerifiedProposal> verified) {
  const Room wanted = needed(verified);
  const bool processors_moved = processors_.make_room(wanted.processors);
  if (tables_ && wanted.q_entries <= q_room_) return processors_moved;
  move_to(wanted.q_entries <= q_room_ ? q_room_ : 2 * wanted.q_entries);
  return true;
}

void VerificationTables::put(std::span<const VerifiedProposal> verified, const VerificationGrid& grid) {
  used_ = {};
  const auto processors = [](const VerifiedProposal& one) { return one.sequence->sampling->processes_logits(); };
  used_.processors = std::any_of(verified.begin(), verified.end(), processors);
  fill_up(grid);
  for (std::size_t i = 0; i < verified.size(); ++i) add(verified[i], static_cast<std::int32_t>(i));
  tables_->put(0, layout_.q_ids.at);
  if (used_.processors) processors_.put();
  if (used_.q_entries == 0) return;
  tables_->put(layout_.q_ids.at, layout_.q_ids.end(used_.q_entries));
  tables_->put(layout_.q_probabilities.at, layout_.q_probabilities.end(used_.q_entries));
}

// Fills the grid with padding: greedy rows without logits processors, and no proposals.
void VerificationTables::fill_up(const VerificationGrid& grid) {
  SLIP_CHECK(static_cast<std::size_t>(std::max(grid.n_rows, grid.n_proposals)) <= max_rows_, "a grid within bounds");
  std::fill_n(on_host(layout_.transforms), grid.n_rows, Transform{.temperature = 0});
  std::fill_n(on_host(layout_.addresses), grid.n_rows, RandomAddress{});
  std::fill_n(on_host(layout_.proposals), grid.n_proposals, ProposalRows{.n_nodes = kernels::cuda::kNoProposal});
  if (used_.processors) processors_.start(static_cast<std::size_t>(grid.n_rows));
}

void VerificationTables::add(const VerifiedProposal& verified, std::int32_t index) {
  const SequenceRef& sequence = *verified.sequence;
  const Proposal& proposal = *verified.proposal;
  const bool coupled = sequence.rule == AcceptanceRule::kCoupled;
  static_assert(kMaxProposalNodes <= kernels::cuda::kMostNodes);
  SLIP_CHECK(proposal.size() <= kernels::cuda::kMostNodes, "a proposal has few nodes");
  SLIP_CHECK(coupled || proposal.draw_method != DrawMethod::kGumbel,
             "Gumbel proposals share the target's noise: verify them coupled");
  ProposalRows rows;
  rows.first_node = used_.nodes;
  rows.n_nodes = static_cast<std::int32_t>(proposal.size());
  rows.first_row = verified.first_row;
  rows.coupled = coupled;
  rows.deterministic = proposal.draw_method == DrawMethod::kDeterministic;
  rows.first = sequence.next_address();
  on_host(layout_.proposals)[index] = rows;
  used_.coupled |= coupled && sequence.sampling->temperature > 0;
  add_rows(verified);
  add_nodes(proposal, is_verified_by_q(verified));
}

// Adds the row after the last committed token, then the row after each node. A node's row decides the output token one
// past its depth.
void VerificationTables::add_rows(const VerifiedProposal& verified) {
  const SequenceRef& sequence = *verified.sequence;
  const auto n_nodes = static_cast<std::int32_t>(verified.proposal->size());
  const std::int32_t processors = used_.processors ? processors_.add(sequence) : 0;
  depth_.assign(verified.proposal->size() + 1, 0);
  for (std::int32_t row = 0; row <= n_nodes; ++row) {
    const std::int32_t at = verified.first_row + row;
    if (row > 0) {
      const std::int32_t parent = verified.proposal->parents[static_cast<std::size_t>(row - 1)];
      depth_[static_cast<std::size_t>(row)] = depth_[static_cast<std::size_t>(parent + 1)] + 1;
    }
    RandomAddress address = sequence.next_address();
    address.output_index += static_cast<std::uint32_t>(depth_[static_cast<std::size_t>(row)]);
    on_host(layout_.transforms)[at] = transform_of(*sequence.sampling);
    on_host(layout_.addresses)[at] = address;
    if (processors == 0) continue;
    processors_.set_row(static_cast<std::size_t>(at),
                        {.sequence = processors, .first_node = used_.nodes, .node = row - 1});
  }
}

void VerificationTables::add_nodes(const Proposal& proposal, bool by_q) {
  const std::size_t n = proposal.size();
  SLIP_CHECK(!by_q || proposal.q.size() == n || proposal.device_q.size() == n, "sampled tokens come with their q");
  std::copy_n(proposal.tokens.begin(), n, on_host(layout_.tokens) + used_.nodes);
  std::copy_n(proposal.parents.begin(), n, on_host(layout_.parents) + used_.nodes);
  DraftDistribution* q = on_host(layout_.q) + used_.nodes;
  for (std::size_t i = 0; by_q && i < n; ++i) {
    q[i] = proposal.q.empty() ? DraftDistribution{.logits = proposal.device_q[i].logits,
                                                  .distribution = proposal.device_q[i].distribution}
                              : add_distribution(proposal.q[i]);
  }
  used_.nodes += static_cast<std::int32_t>(n);
}

DraftDistribution VerificationTables::add_distribution(const Distribution& distribution) {
  const std::size_t at = used_.q_entries, n = distribution.ids.size();
  std::copy_n(distribution.ids.begin(), n, on_host(layout_.q_ids) + at);
  std::copy_n(distribution.probabilities.begin(), n, on_host(layout_.q_probabilities) + at);
  used_.q_entries += n;
  return {.ids = on_device(layout_.q_ids) + at,
          .probabilities = on_device(layout_.q_probabilities) + at,
          .n = static_cast<std::int32_t>(n)};
}

ProcessLogits VerificationTables::processors() const {
  ProcessLogits job = processors_.job();
  job.tokens = tokens();
  job.parents = parents();
  return job;
}

}  // namespace slip
