// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_worker.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "engine/models/step_check.h"

namespace slip {
namespace {

using kernels::cuda::DeviceQueue;

DeviceTransformer::Bounds bounds_of(std::int32_t max_rows, std::int32_t max_logit_rows) {
  SLIP_CHECK(max_rows > 0 && max_logit_rows > 0, "a workspace without rows");
  return {row_capacity(max_rows), row_capacity(max_logit_rows)};
}

}  // namespace

DevicePages::DevicePages(std::shared_ptr<DeviceQueue> queue, std::size_t bytes)
    : queue_(std::move(queue)), memory_(*queue_, bytes) {}

void DevicePages::copy_slot(const kernels::PagedKv& first, int n_layers, PageSlot from, PageSlot to) {
  const auto slot_bytes =
      static_cast<std::int64_t>(first.head_dim) * static_cast<std::int64_t>(dtype_bytes(first.dtype));
  const std::int64_t head_bytes = slot_bytes * first.page_tokens, layer_bytes = kernels::layer_page_bytes(first);
  const auto address = [&](PageSlot at, int layer) {
    return static_cast<std::byte*>(first.base) + at.page * first.page_stride_bytes + layer * layer_bytes +
           at.offset * slot_bytes;
  };
  if (address(to, 0) == address(from, 0)) return;
  // k and v of one head have the same layout, [slot][head_dim], so {k, v} × heads is one count of equal blocks. Layers
  // are included if there is no gap between them.
  const int n_blocks = 2 * first.n_kv_heads, n_at_once = n_blocks * head_bytes == layer_bytes ? n_layers : 1;
  for (int layer = 0; layer < n_layers; layer += n_at_once) {
    queue_->copy_blocks(address(to, layer), address(from, layer),
                        {static_cast<std::size_t>(slot_bytes), static_cast<std::size_t>(head_bytes),
                         static_cast<std::size_t>(n_blocks * n_at_once)});
  }
}

DeviceWorker::DeviceWorker(std::shared_ptr<DeviceQueue> queue, const ModelWeights& weights, std::int32_t max_rows,
                           std::int32_t max_logit_rows, std::int32_t n_pages)
    : queue_(std::move(queue)),
      max_rows_(max_rows),
      max_logit_rows_(max_logit_rows),
      weights_(queue_, weights),
      transformer_(queue_, weights.config, bounds_of(max_rows, max_logit_rows)),
      cache_(weights.config, Dtype::kBFloat16, n_pages,
             std::make_unique<DevicePages>(
                 queue_, PagePool::page_bytes(weights.config, Dtype::kBFloat16) * static_cast<std::size_t>(n_pages))),
      step_(*queue_, weights.config, {row_capacity(max_rows), row_capacity(max_logit_rows), n_pages, max_logit_rows}),
      logits_(*queue_, static_cast<std::size_t>(row_capacity(max_logit_rows)) *
                           static_cast<std::size_t>(weights.config.vocab_size)) {
  weights_.load(weights, 0);
}

// `to`'s rows need not be contiguous.
void DeviceWorker::copy_rows_out(const TensorView& to, const float* from, std::int64_t n_rows, std::int64_t width) {
  const auto bytes = static_cast<std::size_t>(width) * sizeof(float);
  if (to.strides[0] == width) return queue_->copy_out(to.data, from, static_cast<std::size_t>(n_rows) * bytes);
  for (std::int64_t row = 0; row < n_rows; ++row) queue_->copy_out(to.row<float>(row), from + row * width, bytes);
}

void DeviceWorker::put_tap(const StepInput& input, const StepOutput& output, std::int32_t layer) {
  const TensorView* tap = tap_of(input.taps, output.taps, layer);
  if (tap == nullptr) return;
  copy_rows_out(*tap, transformer_.residual(), std::ssize(input.tokens), config().hidden_size);
}

void DeviceWorker::put_pass(const StepInput& input, const StepOutput& output, const DevicePassShape& shape) {
  const DeviceTransformer::Operands operands{weights_.model(), step_, cache_, logits_.get()};
  if (!shape.captured) {
    transformer_.put(operands, shape, [&](std::int32_t layer) { put_tap(input, output, layer); });
    return;
  }
  auto& graph = graphs_[shape];
  if (graph == nullptr) {
    graph = queue_->capture([&] { transformer_.put(operands, shape); });
  }
  queue_->replay(*graph);
}

void DeviceWorker::run(const StepInput& input, StepOutput& output) {
  put(input, output);
  queue_->wait();
}

DevicePassShape DeviceWorker::put(const StepInput& input, const StepOutput& output) {
  check_step(input, config(), {max_rows_, max_logit_rows_});
  SLIP_CHECK(std::all_of(input.weights.begin(), input.weights.end(), [](std::uint16_t index) { return index == 0; }),
             "a target has one set of weights");
  if (input.tokens.empty()) return {};
  const DevicePassShape shape = shape_of(step_.needs(input));
  step_.put(input, shape);
  put_pass(input, output, shape);
  const auto n = static_cast<std::int64_t>(input.logit_rows.size());
  if (output.final_hidden.data != nullptr) {
    copy_rows_out(output.final_hidden, transformer_.final_hidden(), n, config().hidden_size);
  }
  if (output.logits.data != nullptr) copy_rows_out(output.logits, logits_.get(), n, config().vocab_size);
  return shape;
}

}  // namespace slip
