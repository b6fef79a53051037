// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/transformer.h"
#include "engine/speculate/proposal.h"

namespace slip {

// One sequence's part of a target pass: committed tokens the target has not read, then a proposal hanging off the last.
struct ScoreTask {
  std::span<const std::int32_t> tokens;  // at positions n_cached …
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
  const Proposal* proposal = nullptr;  // null: none
  bool wants_logits = true;            // false in the middle of a prompt
  bool wants_all_logits = false;       // of every row, not only from the last token on
};

// The target's word on many sequences at once: one pass over the ragged rows of all of them. A chain is a tree that
// never branches, so there is one path. Threads: the engine thread only; logits live until the next score().
class Verifier {
 public:
  // Reads `worker`'s bounds; the worker outlives it.
  explicit Verifier(Worker& worker);

  // REQUIRES: rows and logit rows within the worker's bounds, room for every row in the page tables.
  void score(std::span<const ScoreTask> tasks);
  // Raw logits [vocab] of task `task`: row 0 after its last token, row 1 + i after node i; with wants_all_logits also
  // row −i after the token i places before the last.
  std::span<const float> logits(std::size_t task, std::int32_t row) const;
  // Moves the keys and values of accepted nodes to where committed ones belong; a chain has nothing to move.
  void keep_path(const ScoreTask& task, std::span<const std::int32_t> accepted);

 private:
  void gather(std::span<const ScoreTask> tasks);
  void add_nodes(const ScoreTask& task);
  void write_ancestors(std::span<const ScoreTask> tasks);

  Worker& worker_;
  std::unique_ptr<float[]> logits_;            // [max_logit_rows, vocab]
  std::vector<std::int32_t> first_logit_row_;  // [n_task], of row 0
  std::vector<std::int32_t> tokens_, positions_, row_begin_, logit_rows_;
  std::vector<std::uint64_t> ancestors_;  // [n_row, ancestor_words_]; empty when all are chains
  std::int32_t ancestor_words_ = 0;
  std::vector<KvView> kv_;
};

// Nodes that follow each other: node i hangs off node i − 1.
bool is_chain(const Proposal& proposal);

}  // namespace slip
