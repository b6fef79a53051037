// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cuda/device_tables.h"
#include "engine/speculative/proposer.h"

namespace slip {

// What ProcessLogits reads besides the logits: what each row follows, and of each sequence what its request asks and
// which tokens it has. It stands at addresses that stay the same until sequences need more room than there is. Threads:
// those of the queue.
class LogitsProcessorTables {
 public:
  // How many entries the lists of some sequences have.
  struct Room {
    std::size_t counts = 0, biases = 0, ends = 0;
  };

  // Error{kTooLarge}.
  LogitsProcessorTables(kernels::cuda::DeviceQueue& queue, std::size_t max_rows, std::size_t max_sequences,
                        std::int32_t vocab);

  void need(const SequenceRef& sequence, Room& room) const;  // adds its own to what others need
  // True when all addresses changed. REQUIRES: the queue is done with what was put before. Error{kTooLarge}.
  bool make_room(const Room& needed);

  // From here on the tables are of so many rows, whose logits stay as they are but for those that are set.
  void start(std::size_t n_rows);
  std::int32_t add(const SequenceRef& sequence);  // what ProcessedRow::sequence says for it
  void set_row(std::size_t row, const kernels::cuda::ProcessedRow& processed) {
    tables_->on_host(layout_.rows)[row] = processed;
  }
  void put() const;

  // Of what was put last. Where the logits are and go, and what was proposed, is left to say.
  kernels::cuda::ProcessLogits job() const;

 private:
  struct Layout {
    TablePlace<kernels::cuda::ProcessedRow> rows;
    TablePlace<kernels::cuda::SequenceProcessors> sequences;  // the first has none
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
  std::vector<std::int32_t> counts_;  // [vocab] 0 between calls
};

}  // namespace slip
