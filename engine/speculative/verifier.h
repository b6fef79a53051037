// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/models/transformer.h"
#include "engine/speculative/observation.h"
#include "engine/speculative/proposal.h"
#include "engine/speculative/step_rows.h"

namespace slip {

struct SequenceRef;

// One sequence's part of a target pass: committed tokens that the target has not read, then a proposal below the last.
struct ScoreTask : SequenceSlice {
  const Proposal* proposal = nullptr;  // null: none
  bool wants_logits = true;            // false in the middle of a prompt
  bool wants_all_logits = false;       // of every row, not only from the last token on
  // The outputs the caller will read; all others are undefined.
  const SequenceRef* sequence = nullptr;  // not null: verify(), for this request
  std::int32_t top_k = 0;                 // not 0: observed(), with K = top_k
  bool needs_logits = false;              // logits()
};

// Verifies the proposals of many sequences with one target pass over the ragged rows of all of them. A chain is a tree
// that never branches, so there is one code path. LocalVerifier verifies proposals on the host, DeviceVerifier on a
// device. Threads: the engine thread only. Tasks and all that they point to must live until the next score(); results
// are valid until then.
class Verifier {
 public:
  // Reads `worker`'s bounds; the worker outlives it.
  explicit Verifier(Worker& worker);
  virtual ~Verifier() = default;
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  // Whether such a request is verified on a device, without logits on the host: the value of
  // SequenceRef::verified_on_device. Depends on the request alone, so that one place verifies the whole answer,
  // whatever is proposed.
  virtual bool verifies_on_device(const SamplingParams& sampling) const = 0;

  // Runs the pass over all tasks' rows, and all work that must be done before results are read. REQUIRES: rows and
  // logit rows within the worker's bounds, room for every row in the page tables.
  virtual void score(std::span<const ScoreTask> tasks) = 0;
  // accept() of a task's proposal under its request's distribution. Errors as transform_logits() of the row after the
  // last committed token.
  virtual void verify(std::size_t task, VerifyResult& result) = 0;
  // observe_row() of a row, which is numbered as in logits().
  virtual TopK observed(std::size_t task, std::int32_t row) = 0;
  // Raw logits [vocab] of task `task`: row 0 after its last token, row 1 + i after node i; with wants_all_logits also
  // row −i after the token i places before the last.
  std::span<const float> logits(std::size_t task, std::int32_t row) const;
  // Moves the keys and values of accepted nodes to the slots of committed tokens; a chain needs no move.
  void keep_path(const ScoreTask& task, std::span<const std::int32_t> accepted);

 protected:
  // A range of rows of a pass's logits.
  struct LogitRows {
    std::int32_t begin = 0, end = 0;
  };
  // Memory of one verification on the host.
  struct Scratch {
    Distribution p;
    std::vector<std::int32_t> path;
  };

  // Takes the tasks of the next pass and builds its step, which is valid until the next call.
  StepInput lay_out(std::span<const ScoreTask> tasks);
  // verify() and observed() with the logits on the host. May run on several threads, each with its own scratch.
  void verify_on_host(std::size_t task, VerifyResult& result, Scratch& scratch) const;
  TopK observe_on_host(std::size_t task, std::int32_t row) const;

  Worker& worker() const { return worker_; }
  const ScoreTask& task(std::size_t index) const { return tasks_[index]; }
  std::size_t n_tasks() const { return tasks_.size(); }
  std::int32_t first_logit_row(std::size_t task) const { return first_logit_row_[task]; }  // the index of its row 0
  LogitRows logit_rows(std::size_t task) const;                                            // all rows that it wants
  float* host_row(std::int32_t logit_row) const;

 private:
  Worker& worker_;
  std::span<const ScoreTask> tasks_;
  std::unique_ptr<float[]> logits_;            // [max_logit_rows, vocab]
  std::vector<std::int32_t> first_logit_row_;  // [n_task], of row 0
  StepRows rows_;
};

}  // namespace slip
