// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cuda/device_tables.h"
#include "engine/speculative/proposer.h"

namespace slip {

// The inputs of ProcessLogits besides the logits: the tokens before each row, and each sequence's request and token
// counts. The addresses change only when sequences need more room. Threads: those of the queue.
class LogitsProcessorTables {
 public:
  // Sizes of the lists of some sequences.
  struct Room {
    std::size_t counts = 0, biases = 0, ends = 0;
  };

  // Error{kTooLarge}.
  LogitsProcessorTables(kernels::cuda::DeviceQueue& queue, std::size_t max_rows, std::size_t max_sequences,
                        std::int32_t vocab);

  void need(const SequenceRef& sequence, Room& room) const;  // adds its own needs to `room`
  // True when all addresses changed. REQUIRES: the queue is done with all earlier jobs. Error{kTooLarge}.
  bool make_room(const Room& needed);

  // Starts new tables for `n_rows` rows. Rows without set_row() keep their logits.
  void start(std::size_t n_rows);
  std::int32_t add(const SequenceRef& sequence);  // returns its ProcessedRow::sequence
  void set_row(std::size_t row, const kernels::cuda::ProcessedRow& processed) {
    tables_->on_host(layout_.rows)[row] = processed;
  }
  void put() const;

  // The job for the tables put last. The caller sets its logits and its proposed tokens.
  kernels::cuda::ProcessLogits job() const;

 private:
  struct Layout {
    TablePlace<kernels::cuda::ProcessedRow> rows;
    TablePlace<kernels::cuda::SequenceProcessors> sequences;  // the first one has no processors
    TablePlace<kernels::cuda::TokenCount> counts;
    TablePlace<kernels::cuda::TokenBias> biases;
    TablePlace<std::int32_t> ends;
  };
  struct Used {
    std::size_t rows = 0;
    std::int32_t sequences = 1, counts = 0, biases = 0, ends = 0;
  };
  void move_to(const Room& room);
  kernels::cuda::IdRange add_counts(const SequenceRef& sequence);
  kernels::cuda::IdRange add_biases(const SamplingParams& sampling);

  kernels::cuda::DeviceQueue& queue_;
  std::size_t max_rows_, max_sequences_;
  Room room_;
  Layout layout_;
  std::optional<DeviceTables> tables_;
  Used used_;
  std::vector<std::int32_t> counts_;  // [vocab] all 0 between calls
};

}  // namespace slip
