// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/models/transformer.h"
#include "engine/speculative/proposal.h"

namespace slip {

enum class WantedLogits : std::uint8_t {
  kNone,
  kFromLast,  // of the last token and every node
  kAll,
};

// Tokens of one sequence that a pass reads, after those in its cache.
struct SequenceSlice {
  std::span<const std::int32_t> tokens;  // at positions n_cached …; at least one
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
};

// One sequence's rows of a step: the slice's tokens, then a proposal below the last one.
struct SequenceRows : SequenceSlice {
  const Proposal* proposal = nullptr;  // null: none
  WantedLogits wanted = WantedLogits::kNone;
};

// The places of a slice's tokens that branch off rows of earlier steps, instead of following each other.
struct BranchPlaces {
  std::span<const std::int32_t> positions;  // [n]
  std::span<const std::uint64_t> seen;      // [n] bit i: slot n_cached + i is visible, the row's own included
  std::int32_t n_ahead = 0;                 // as in KvView
};

// Builds the step of several sequences, their rows concatenated. Reused, it stops allocating once its buffers have
// grown. Threads: one owner.
class StepRows {
 public:
  void clear();
  // Adds one sequence. Returns the index of its last token's row among the wanted logits; its first node's row follows.
  // If no logits are wanted, returns the index that the row would have.
  std::int32_t add(const SequenceRows& rows);
  // Adds rows whose logits are all wanted. REQUIRES: places.n_ahead + n ≤ 64.
  void add(const SequenceSlice& slice, const BranchPlaces& places);
  // The step of all rows since clear(), valid until the next clear(). Points to the page tables; the caller sets the
  // weight indexes.
  StepInput step();

 private:
  void add_nodes(const Proposal& proposal);
  void end_sequence(const SequenceSlice& slice, std::int32_t n_ahead);
  void write_ancestors();

  std::vector<std::int32_t> tokens_, positions_, logit_rows_;
  std::vector<std::int32_t> row_begin_{0};
  std::vector<std::int32_t> above_;  // [n_row] the previous row on its path; −1: the sequence's first, or a branch's
  std::vector<std::uint64_t> seen_;  // [n_row] BranchPlaces::seen; 0: what the row above sees, and itself
  std::vector<KvView> kv_;
  bool branches_ = false;                 // some path skips a row before it
  std::vector<std::uint64_t> ancestors_;  // [n_row, ancestor_words_]; empty when nothing branches
  std::int32_t ancestor_words_ = 0;
};

}  // namespace slip
