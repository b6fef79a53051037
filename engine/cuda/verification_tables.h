// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/cuda/device_tables.h"
#include "engine/cuda/logits_processor_tables.h"

namespace slip {

// A proposal that a device verifies, with its request.
struct VerifiedProposal {
  const SequenceRef* sequence = nullptr;
  const Proposal* proposal = nullptr;
  // Row of the pass's logits after the last committed token; node i's row is first_row + 1 + i.
  std::int32_t first_row = 0;
};

// The grid sizes of the jobs that verify a pass. Padding rows only get their best token computed; padding proposals are
// skipped.
struct VerificationGrid {
  std::int32_t n_rows = 0, n_proposals = 0;
  auto operator<=>(const VerificationGrid&) const = default;
};

// The inputs of the jobs that verify a pass, besides its logits: transforms, logits processors, proposals and their q.
// The addresses change only when a pass needs more room. Threads: those of the queue.
class VerificationTables {
 public:
  // For passes of up to `max_rows` wanted logits. Error{kTooLarge}.
  VerificationTables(kernels::cuda::DeviceQueue& queue, std::int32_t max_rows, std::int32_t vocab);

  // Makes room for these; true when all addresses changed. REQUIRES: the queue is done with all earlier jobs.
  // Error{kTooLarge}.
  bool make_room(std::span<const VerifiedProposal> verified);
  // Writes the tables and enqueues their copy to the device. REQUIRES: room for these, which fit the grid.
  void put(std::span<const VerifiedProposal> verified, const VerificationGrid& grid);

  // In device memory, from the last put().
  const kernels::cuda::Transform* transforms() const { return on_device(layout_.transforms); }  // [n_rows]
  const RandomAddress* addresses() const { return on_device(layout_.addresses); }               // [n_rows]
  const kernels::cuda::ProposalRows* proposals() const { return on_device(layout_.proposals); }
  const std::int32_t* tokens() const { return on_device(layout_.tokens); }
  const std::int32_t* parents() const { return on_device(layout_.parents); }
  const kernels::cuda::DraftDistribution* q() const { return on_device(layout_.q); }
  // The caller sets the addresses of the logits.
  kernels::cuda::ProcessLogits processors() const;

  // About the last put(): whether a request has logits processors, and whether one draws by Gumbel noise.
  bool has_processors() const { return used_.processors; }
  bool draws_coupled() const { return used_.coupled; }

 private:
  // Sizes of the variable-length tables.
  struct Room {
    LogitsProcessorTables::Room processors;
    std::size_t q_entries = 0;
  };
  struct Layout {
    TablePlace<kernels::cuda::Transform> transforms;
    TablePlace<RandomAddress> addresses;
    TablePlace<kernels::cuda::ProposalRows> proposals;
    TablePlace<std::int32_t> tokens, parents;
    TablePlace<kernels::cuda::DraftDistribution> q;
    // Only for distributions from the host.
    TablePlace<std::int32_t> q_ids;
    TablePlace<double> q_probabilities;
  };
  struct Used {
    std::int32_t nodes = 0;
    std::size_t q_entries = 0;
    bool processors = false, coupled = false;
  };

  template <class T>
  T* on_host(const TablePlace<T>& table) const {
    return tables_->on_host(table);
  }
  template <class T>
  const T* on_device(const TablePlace<T>& table) const {
    return tables_->on_device(table);
  }
  Room needed(std::span<const VerifiedProposal> verified) const;
  void move_to(std::size_t q_entries);
  void fill_up(const VerificationGrid& grid);
  void add(const VerifiedProposal& verified, std::int32_t index);
  void add_nodes(const Proposal& proposal, bool by_q);
  void add_rows(const VerifiedProposal& verified);
  kernels::cuda::DraftDistribution add_distribution(const Distribution& distribution);

  kernels::cuda::DeviceQueue& queue_;
  std::size_t max_rows_, q_room_ = 0;
  Layout layout_;
  std::optional<DeviceTables> tables_;
  LogitsProcessorTables processors_;
  Used used_;
  std::vector<std::int32_t> depth_;  // scratch: depths of a proposal's nodes
};

}  // namespace slip
