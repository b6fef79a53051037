// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/models/transformer.h"
#include "engine/speculative/observation.h"
#include "engine/speculative/proposal.h"
#include "engine/speculative/step_rows.h"

namespace slip {

struct SequenceRef;

// One sequence's part of a target pass: committed tokens the target has not read, then a proposal hanging off the last.
struct ScoreTask {
  std::span<const std::int32_t> tokens;  // at positions n_cached …
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
  const Proposal* proposal = nullptr;  // null: none
  bool wants_logits = true;            // false in the middle of a prompt
  bool wants_all_logits = false;       // of every row, not only from the last token on
  // What will be asked about it: nothing else is sure to be there.
  const SequenceRef* sequence = nullptr;  // not null: verify(), by this request
  std::int32_t top_k = 0;                 // not 0: observed(), with so many
  bool needs_logits = false;              // logits()
};

// The target's word on many sequences at once: one pass over the ragged rows of all of them. A chain is a tree that
// never branches, so there is one path. This one verifies on the host, when it is asked, with rows of logits that the
// worker has left there. Threads: the engine thread only; tasks and what they point to live, and answers are good,
// until the next score().
class Verifier {
 public:
  // Reads `worker`'s bounds; the worker outlives it.
  explicit Verifier(Worker& worker);
  virtual ~Verifier() = default;
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  // Whether such a request is verified where no host sees its logits: the value of SequenceRef::verified_on_device. Of
  // the request alone, so that one place verifies the whole answer, whatever is proposed.
  virtual bool verifies_on_device(const SamplingParams& sampling) const;

  // REQUIRES: rows and logit rows within the worker's bounds, room for every row in the page tables.
  void score(std::span<const ScoreTask> tasks);
  // accept() of a task's proposal under its request's distribution. Errors as transform_logits().
  virtual void verify(std::size_t task, VerifyResult& result);
  // The row as logits() counts it, as observe_row() tells of it.
  virtual TopK observed(std::size_t task, std::int32_t row);
  // Raw logits [vocab] of task `task`: row 0 after its last token, row 1 + i after node i; with wants_all_logits also
  // row −i after the token i places before the last.
  std::span<const float> logits(std::size_t task, std::int32_t row) const;
  // Moves the keys and values of accepted nodes to where committed ones belong; a chain has nothing to move.
  void keep_path(const ScoreTask& task, std::span<const std::int32_t> accepted);

 protected:
  // Rows of a pass's logits.
  struct LogitRows {
    std::int32_t begin = 0, end = 0;
  };

  // The pass over all tasks' rows, and all that has to be done before answers are given.
  virtual void run(const StepInput& input);
  const ScoreTask& task(std::size_t index) const { return tasks_[index]; }
  std::size_t n_tasks() const { return tasks_.size(); }
  std::int32_t first_logit_row(std::size_t task) const { return first_logit_row_[task]; }  // that of its row 0
  LogitRows logit_rows(std::size_t task) const;                                            // all that it wants
  float* host_row(std::int32_t logit_row) const;

 private:
  Worker& worker_;
  std::span<const ScoreTask> tasks_;
  std::unique_ptr<float[]> logits_;            // [max_logit_rows, vocab]
  std::vector<std::int32_t> first_logit_row_;  // [n_task], of row 0
  StepRows rows_;
  // Scratch of one verification.
  Distribution p_;
  std::vector<std::int32_t> path_;
};

// The target as an engine takes it: what runs its passes, and what answers by them.
struct Target {
  // Verified on the host.
  template <std::derived_from<Worker> Runs>
  Target(std::unique_ptr<Runs> runs)  // NOLINT(google-explicit-constructor): a worker is all that it takes
      : worker(std::move(runs)), verifier(std::make_unique<Verifier>(*worker)) {}
  Target(std::unique_ptr<Worker> runs, std::unique_ptr<Verifier> answers)
      : worker(std::move(runs)), verifier(std::move(answers)) {}

  std::unique_ptr<Worker> worker;
  std::unique_ptr<Verifier> verifier;
};

}  // namespace slip
