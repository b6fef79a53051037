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
  kFromLast,  // of the last token and of every node
  kAll,
};

// One sequence's rows of a step: tokens that follow each other, then a proposal that hangs off the last.
struct SequenceRows {
  std::span<const std::int32_t> tokens;  // at positions n_cached …; one at least
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
  const Proposal* proposal = nullptr;  // null: none
  WantedLogits wanted = WantedLogits::kNone;
};

// The step that many sequences make together, their rows one behind the other. Reused, it allocates nothing once it is
// as large as it gets. Threads: one owner.
class StepRows {
 public:
  void clear();
  // The last token's row among those whose logits are wanted: the first node's comes behind it. Without any, it would
  // be there.
  std::int32_t add(const SequenceRows& rows);
  // Of what was added since clear(), good until then; page tables are pointed to, weight indexes left to the caller.
  StepInput step();

 private:
  void add_nodes(const Proposal& proposal);
  void write_ancestors();

  std::vector<std::int32_t> tokens_, positions_, logit_rows_;
  std::vector<std::int32_t> row_begin_{0};
  std::vector<std::int32_t> above_;  // [n_row] the row before it on its path; −1: the sequence's first
  std::vector<KvView> kv_;
  bool branches_ = false;                 // some path leaves rows before it out
  std::vector<std::uint64_t> ancestors_;  // [n_row, ancestor_words_]; empty when nothing branches
  std::int32_t ancestor_words_ = 0;
};

}  // namespace slip
