// SPDX-License-Identifier: Apache-2.0
#include "distill/torch_head.h"

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "kernels/cuda/foreign_stream.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

// Of a piece's logits: what stays in a processor's cache, and what keeps a device busy.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20, kDevicePieceBytes = std::int64_t{128} << 20;

std::int64_t rows_a_piece(std::int64_t vocab, bool is_cpu) {
  if (is_cpu) return std::clamp<std::int64_t>(kPieceBytes / (4 * vocab), 16, 256);
  return std::clamp<std::int64_t>(kDevicePieceBytes / (4 * vocab), 16, 4096);
}

// The targets of some rows as the device wants them; all keep the same number of ids.
struct DeviceTargets {
  DeviceTargets(std::span<const TopK* const> rows, double weight, at::Device device) {
    const auto n = static_cast<std::int64_t>(rows.size());
    const auto k = static_cast<std::int64_t>(rows[0]->ids.size());
    const at::Tensor host_ids = at::empty({n, k}, at::kInt), host_logprobs = at::empty({n, k}, at::kFloat),
                     host_tails = at::empty({n}, at::kFloat);
    for (std::int64_t row = 0; row < n; ++row) {
      const TopK& target = *rows[static_cast<std::size_t>(row)];
      std::copy(target.ids.begin(), target.ids.end(), host_ids.data_ptr<std::int32_t>() + row * k);
      std::copy(target.logprobs.begin(), target.logprobs.end(), host_logprobs.data_ptr<float>() + row * k);
      host_tails.data_ptr<float>()[row] = target.log_tail;
    }
    ids = host_ids.to(device);
    logprobs = host_logprobs.to(device);
    tails = host_tails.to(device);
    weights = at::full({n}, weight, at::TensorOptions(device).dtype(at::kFloat));
    losses = at::empty({n}, at::TensorOptions(device).dtype(at::kDouble));
  }
  at::Tensor ids, logprobs;           // [n, k]
  at::Tensor tails, weights, losses;  // [n]
};

}  // namespace

TorchHead::TorchHead(std::int64_t vocab, const LossOptions& loss, const TorchDevice& device)
    : loss_(loss), device_(device) {
  const auto options = at::TensorOptions(device.get()).dtype(at::kFloat);
  logits_ = at::empty({rows_a_piece(vocab, device.is_cpu()), vocab}, options);
  slopes_ = device.is_cpu() ? logits_ : at::empty_like(logits_);
}

RowSums TorchHead::losses(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                          const at::Tensor& slope) {
  const std::int64_t vocab = logits.size(1);
  RowSums sums;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const TopK& target = *targets[i];
    if (target.ids.empty()) {
      slope[static_cast<std::int64_t>(i)].zero_();
      continue;
    }
    ++sums.rows;
    const std::int64_t at = static_cast<std::int64_t>(i) * vocab;
    const float* row = logits.data_ptr<float>() + at;
    sums.greedy_hits += kernels::argmax({row, static_cast<std::size_t>(vocab)}) == target.ids[0] ? 1 : 0;
    sums.loss += fused_loss_row(loss_, row, vocab, target.ids.data(), target.logprobs.data(),
                                static_cast<std::int64_t>(target.ids.size()), target.log_tail, weight,
                                slope.data_ptr<float>() + at);
  }
  return sums;
}

// The same by the device's kernel: one launch for rows in a row that keep equally many ids, which is nearly always all.
RowSums TorchHead::losses_on_device(const at::Tensor& logits, std::span<const TopK* const> targets, double weight,
                                    const at::Tensor& slope) {
  RowSums sums;
  for (std::size_t from = 0, end = 0; from < targets.size(); from = end) {
    const std::size_t k = targets[from]->ids.size();
    for (end = from; end < targets.size() && targets[end]->ids.size() == k; ++end) {
    }
    if (k > kernels::cuda::kMostKept) {
      throw Error(ErrorCode::kUnsupported, "a record keeps more tokens a position than the device learns from",
                  "set learning.device to \"cpu\", or let the records expire", "learning.device");
    }
    if (k == 0) {
      slope.narrow(0, static_cast<std::int64_t>(from), static_cast<std::int64_t>(end - from)).zero_();
      continue;
    }
    const auto first = static_cast<std::int64_t>(from), n = static_cast<std::int64_t>(end - from);
    const DeviceTargets rows(targets.subspan(from, end - from), weight, device_.get());
    const at::Tensor those = logits.narrow(0, first, n);
    kernels::cuda::FusedLoss job;
    job.options = loss_;
    job.logits = those.data_ptr<float>();
    job.stride = job.vocab = static_cast<std::int32_t>(logits.size(1));
    job.k = static_cast<std::int32_t>(k);
    job.ids = rows.ids.data_ptr<std::int32_t>();
    job.logprobs = rows.logprobs.data_ptr<float>();
    job.log_tail = rows.tails.data_ptr<float>();
    job.weights = rows.weights.data_ptr<float>();
    job.losses = rows.losses.data_ptr<double>();
    job.grad = slope.narrow(0, first, n).data_ptr<float>();
    kernels::cuda::enqueue_on(device_.stream(),
                              kernels::cuda::OnRows<kernels::cuda::FusedLoss>{job, static_cast<int>(n)});
    sums.loss += rows.losses.sum().item<double>();
    sums.greedy_hits += those.argmax(1).eq(rows.ids.select(1, 0)).sum().item<std::int64_t>();
    sums.rows += n;
  }
  return sums;
}

RowSums TorchHead::pass(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets,
                        double weight, const Backward* backward) {
  RowSums sums;
  const auto n_rows = static_cast<std::int64_t>(targets.size());
  for (std::int64_t from = 0; from < n_rows; from += logits_.size(0)) {
    const std::int64_t n = std::min(logits_.size(0), n_rows - from);
    at::Tensor logits = logits_.narrow(0, 0, n);
    const at::Tensor slope = slopes_.narrow(0, 0, n), piece = hidden.narrow(0, from, n);
    at::mm_out(logits, piece, matrix.t());
    const auto those = targets.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(n));
    const RowSums part =
        device_.is_cpu() ? losses(logits, those, weight, slope) : losses_on_device(logits, those, weight, slope);
    sums.loss += part.loss;
    sums.rows += part.rows;
    sums.greedy_hits += part.greedy_hits;
    if (backward == nullptr) continue;
    at::Tensor hidden_slope = backward->gradient.narrow(0, from, n);
    at::mm_out(hidden_slope, slope, matrix);
    at::Tensor accumulated = backward->matrix_gradient;
    accumulated.addmm_(slope.t(), piece);
  }
  return sums;
}

}  // namespace slip
