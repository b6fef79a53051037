// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/speculate/proposer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// A proposal of a pass that a device judges, by the request it was made for.
struct JudgedProposal {
  const SequenceRef* sequence = nullptr;
  const Proposal* proposal = nullptr;
  // In the pass's logits: the row after the last committed token; node i's is i + 1 further.
  std::int32_t first_row = 0;
};

// The grids of the jobs that judge a pass: filled up with rows that are only looked at, and proposals that are not.
struct JudgedGrid {
  std::int32_t n_rows = 0, n_proposals = 0;
  auto operator<=>(const JudgedGrid&) const = default;
};

// What the jobs that judge a pass read besides its logits: laws asked for, edits, proposals and what they were drawn
// from. It stands at addresses that stay the same until a pass needs more room than there is. Threads: those of the
// queue.
class JudgeTables {
 public:
  // For passes of up to `max_rows` wanted logits. Error{kTooLarge}.
  JudgeTables(kernels::cuda::DeviceQueue& queue, std::int32_t max_rows, std::int32_t vocab);

  // Makes room for these; true when all addresses changed. REQUIRES: the queue is done with what was put before.
  // Error{kTooLarge}.
  bool make_room(std::span<const JudgedProposal> judged);
  // Writes the tables and puts their copy on the queue. REQUIRES: room for these, which fit the grid.
  void put(std::span<const JudgedProposal> judged, const JudgedGrid& grid);

  // In device memory, of what was put last.
  const kernels::cuda::Transform* transforms() const { return on_device(layout_.transforms); }  // [n_rows]
  const RandomAddress* addresses() const { return on_device(layout_.addresses); }               // [n_rows]
  const kernels::cuda::ProposalRows* proposals() const { return on_device(layout_.proposals); }
  const std::int32_t* tokens() const { return on_device(layout_.tokens); }
  const std::int32_t* parents() const { return on_device(layout_.parents); }
  const kernels::cuda::DraftLaw* q() const { return on_device(layout_.q); }
  // With its lists; where the logits are and go is left to say.
  kernels::cuda::EditLogits edits() const;

  // Of what was put last: whether a request edits its logits, and whether one draws by Gumbel noise.
  bool has_edits() const { return used_.edits; }
  bool draws_coupled() const { return used_.coupled; }

 private:
  template <class T>
  struct Table {
    std::size_t at = 0;  // bytes
  };
  // How many entries the tables have room for; the rows' and the proposals' is the same.
  struct Room {
    std::size_t rows = 0, said = 0, biases = 0, ends = 0, q_entries = 0;
    bool holds(const Room& other) const;
  };
  struct Layout {
    Table<kernels::cuda::Transform> transforms;
    Table<RandomAddress> addresses;
    Table<kernels::cuda::ProposalRows> proposals;
    Table<std::int32_t> tokens, parents;
    Table<kernels::cuda::DraftLaw> q;
    // Only for requests that edit logits.
    Table<kernels::cuda::EditedRow> edited_rows;
    Table<kernels::cuda::SequenceEdits> sequences;
    Table<kernels::cuda::SaidToken> said;
    Table<kernels::cuda::TokenBias> biases;
    Table<std::int32_t> ends;
    // Only for laws that came from the host.
    Table<std::int32_t> q_ids;
    Table<double> q_probabilities;
    std::size_t bytes = 0;
  };
  struct Used {
    std::int32_t nodes = 0, said = 0, biases = 0, ends = 0;
    std::size_t q_entries = 0;
    bool edits = false, coupled = false;
  };
  struct Memory {
    Memory(kernels::cuda::DeviceQueue& queue, std::size_t bytes) : host(queue, bytes), device(queue, bytes) {}
    kernels::cuda::CopyMemory<std::byte> host;
    kernels::cuda::DeviceMemory<std::byte> device;
  };
  static Layout lay_out(const Room& room);

  template <class T>
  T* on_host(const Table<T>& table) const {
    return reinterpret_cast<T*>(memory_->host.get() + table.at);
  }
  template <class T>
  const T* on_device(const Table<T>& table) const {
    return reinterpret_cast<const T*>(memory_->device.get() + table.at);
  }
  Room needed(std::span<const JudgedProposal> judged) const;
  void move_to(const Room& room);
  void fill_up(const JudgedGrid& grid, std::size_t n_judged);
  void add(const JudgedProposal& judged, std::int32_t index);
  void add_nodes(const Proposal& proposal, bool by_q);
  void add_rows(const JudgedProposal& judged, std::int32_t index);
  kernels::cuda::DraftLaw add_law(const Distribution& law);
  kernels::cuda::SequenceEdits edits_of(const SequenceRef& sequence);
  kernels::cuda::IdRange add_said(const SequenceRef& sequence);
  void copy_in(std::size_t begin, std::size_t end) const;

  kernels::cuda::DeviceQueue& queue_;
  Room room_;
  Layout layout_;
  std::optional<Memory> memory_;
  Used used_;
  std::vector<std::int32_t> times_said_;  // [vocab] 0 between calls
  std::vector<std::int32_t> depth_;       // scratch: of a proposal's nodes
};

}  // namespace slip
