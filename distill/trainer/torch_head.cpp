// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_head.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "common/error.h"
#include "kernels/cuda/foreign_stream.h"
#include "kernels/elementwise.h"
#include "kernels/vector_clones.h"

namespace slip {
namespace {

// Size of a piece's logits as float32; those of bfloat16 products take half of it. On a CPU a smaller piece fits the
// cache better, but each piece adds a gradient of the whole matrix. On a device it is large enough to keep the device
// busy.
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20, kDevicePieceBytes = std::int64_t{128} << 20;

std::int64_t rows_a_piece(std::int64_t vocab, bool is_cpu) {
  if (is_cpu) return std::clamp<std::int64_t>(kPieceBytes / (4 * vocab), 16, 256);
  return std::clamp<std::int64_t>(kDevicePieceBytes / (4 * vocab), 16, 4096);
}

// The targets of some rows as tensors on the device. All rows keep the same number of ids.
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

TorchHead::TorchHead(const ModelConfig& draft, const TrainerOptions& options, const TorchDevice& device)
    : loss_(options.loss), device_(device), vocab_(draft.vocab_size) {
  const std::int64_t hidden = draft.hidden_size;
  const bool rounds = options.products != Dtype::kFloat32;
  piece_rows_ = rows_a_piece(vocab_, device.is_cpu());
  const auto whole = at::TensorOptions(device.get()).dtype(at::kFloat);
  const auto stored = rounds ? whole.dtype(torch_dtype(options.products)) : whole;
  logits_ = at::empty({piece_rows_, vocab_}, stored);
  slopes_ = device.is_cpu() ? logits_ : at::empty_like(logits_);
  if (!rounds) return;
  SLIP_CHECK(options.products == Dtype::kBFloat16 && device.is_cpu(), "rounded products are bfloat16, on the CPU");
  rounded_ = Rounded{at::empty({piece_rows_, hidden}, stored), at::empty({piece_rows_, hidden}, stored),
                     at::empty({vocab_, hidden}, stored), at::empty({vocab_, hidden}, stored),
                     std::vector<float>(static_cast<std::size_t>(vocab_))};
}

std::size_t TorchHead::bytes() const {
  std::size_t total = (slopes_.is_same(logits_) ? 1 : 2) * logits_.nbytes();
  if (!rounded_) return total;
  for (const at::Tensor* tensor :
       {&rounded_->hidden, &rounded_->gradient, &rounded_->matrix, &rounded_->matrix_gradient}) {
    total += tensor->nbytes();
  }
  return total + rounded_->row.size() * sizeof(float);
}

namespace {

// Rows of the bfloat16 products for `n` rows of a piece of at most `most`. LibTorch compiles a kernel for each number
// of rows, so there are few of them. Answers are short: padding them to a whole piece cost a third of the products.
std::int64_t padded_rows(std::int64_t n, std::int64_t most) {
  constexpr std::int64_t kStep = 64;
  return std::min((n + kStep - 1) / kStep * kStep, most);
}

// Returns the first rows of `buffer`, as many as the products take, with a copy of `rows` and zeros after them.
at::Tensor filled(at::Tensor& buffer, const at::Tensor& rows) {
  const std::int64_t n = rows.size(0), all = padded_rows(n, buffer.size(0));
  buffer.narrow(0, 0, n).copy_(rows);
  if (n < all) buffer.narrow(0, n, all - n).zero_();
  return buffer.narrow(0, 0, all);
}

std::uint16_t* bits_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uint16_t*>(tensor.data_ptr<at::BFloat16>());
}

SLIP_VECTOR_CLONES void add_bf16(const std::uint16_t* x, std::int64_t n, float* sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
}

// sums += rounded. LibTorch would first widen the whole bfloat16 operand into new memory, 4 MiB for a vocabulary of
// 8,192.
void add_rounded(const at::Tensor& rounded, const at::Tensor& sums) {
  constexpr std::int64_t kWorthAThread = 32768;
  const std::uint16_t* x = bits_of(rounded);
  auto* to = sums.data_ptr<float>();
  at::parallel_for(0, sums.numel(), kWorthAThread,
                   [&](std::int64_t begin, std::int64_t end) { add_bf16(x + begin, end - begin, to + begin); });
}

}  // namespace

void TorchHead::multiply(const Piece& piece, const at::Tensor& matrix) {
  at::Tensor logits = piece.logits;
  if (rounded_) {
    at::mm_out(logits, filled(rounded_->hidden, piece.hidden), rounded_->matrix.t());
  } else {
    at::mm_out(logits, piece.hidden, matrix.t());
  }
}

void TorchHead::multiply_back(const Piece& piece, const at::Tensor& matrix, const at::Tensor& matrix_gradient,
                              const PausePoint& pause) {
  at::Tensor gradient = piece.gradient;
  if (!rounded_) {
    at::mm_out(gradient, piece.slopes, matrix);
    give_way(pause);
    matrix_gradient.addmm_(piece.slopes.t(), piece.hidden);
    return;
  }
  const std::int64_t n = piece.slopes.size(0);
  at::Tensor products = rounded_->gradient.narrow(0, 0, n);
  at::mm_out(products, piece.slopes, rounded_->matrix);
  gradient.copy_(products.narrow(0, 0, gradient.size(0)));
  give_way(pause);
  at::mm_out(rounded_->matrix_gradient, piece.slopes.t(), rounded_->hidden.narrow(0, 0, n));
  add_rounded(rounded_->matrix_gradient, matrix_gradient);
}

// Adds a row's loss, and overwrites the row's logits with their gradient.
void TorchHead::add_loss(float* row, const TopK& target, double weight, RowSums& sums) const {
  ++sums.rows;
  sums.greedy_hits += kernels::argmax({row, static_cast<std::size_t>(vocab_)}) == target.ids[0] ? 1 : 0;
  sums.loss += fused_loss_row(loss_, row, vocab_, target.ids.data(), target.logprobs.data(),
                              static_cast<std::int64_t>(target.ids.size()), target.log_tail, weight, row);
}

RowSums TorchHead::losses(const Piece& piece, std::span<const TopK* const> targets, double weight) {
  RowSums sums;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i) * vocab_;
    if (!rounded_) {
      add_loss(piece.logits.data_ptr<float>() + at, *targets[i], weight, sums);
      continue;
    }
    std::uint16_t* bits = bits_of(piece.logits) + at;
    kernels::bf16_to_float(bits, vocab_, rounded_->row.data());
    add_loss(rounded_->row.data(), *targets[i], weight, sums);
    kernels::float_to_bf16(rounded_->row.data(), vocab_, bits);
  }
  return sums;
}

// The same with the device's kernel: one launch per run of rows that keep equally many ids, nearly always one run.
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
    const auto first = static_cast<std::int64_t>(from), n = static_cast<std::int64_t>(end - from);
    const DeviceTargets rows(targets.subspan(from, end - from), weight, device_.get());
    const at::Tensor those = logits.narrow(0, first, n);
    kernels::cuda::FusedLoss job;
    job.options = loss_;
    job.logits = those.data_ptr<float>();
    job.stride = job.vocab = static_cast<std::int32_t>(logits.size(1));
    job.top_k = static_cast<std::int32_t>(k);
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

// Leaves rows without a target out of the products, which are most of a step's work.
RowSums TorchHead::pass(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets,
                        double weight, const Backward* backward, const PausePoint& pause) {
  std::vector<std::int64_t> rows;
  std::vector<const TopK*> kept;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i]->ids.empty()) continue;
    rows.push_back(static_cast<std::int64_t>(i));
    kept.push_back(targets[i]);
  }
  if (kept.size() == targets.size()) return pass_all(hidden, matrix, targets, weight, backward, pause);
  if (backward != nullptr) backward->gradient.zero_();
  if (kept.empty()) return {};
  const at::Tensor places = at::tensor(rows, at::kLong).to(hidden.device());
  const at::Tensor some = hidden.index_select(0, places);
  if (backward == nullptr) return pass_all(some, matrix, kept, weight, nullptr, pause);
  const Backward slopes{at::empty_like(some), backward->matrix_gradient};
  const RowSums sums = pass_all(some, matrix, kept, weight, &slopes, pause);
  backward->gradient.index_copy_(0, places, slopes.gradient);
  return sums;
}

RowSums TorchHead::pass_all(const at::Tensor& hidden, const at::Tensor& matrix, std::span<const TopK* const> targets,
                            double weight, const Backward* backward, const PausePoint& pause) {
  RowSums sums;
  const auto n_rows = static_cast<std::int64_t>(targets.size());
  if (rounded_) rounded_->matrix.copy_(matrix);
  for (std::int64_t from = 0; from < n_rows; from += piece_rows_) {
    const std::int64_t n = std::min(piece_rows_, n_rows - from);
    const std::int64_t multiplied = rounded_ ? padded_rows(n, piece_rows_) : n;
    Piece piece{hidden.narrow(0, from, n), {}, logits_.narrow(0, 0, multiplied), slopes_.narrow(0, 0, multiplied)};
    give_way(pause);
    multiply(piece, matrix);
    give_way(pause);
    const auto those = targets.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(n));
    const RowSums part =
        device_.is_cpu() ? losses(piece, those, weight) : losses_on_device(piece.logits, those, weight, piece.slopes);
    sums.loss += part.loss;
    sums.rows += part.rows;
    sums.greedy_hits += part.greedy_hits;
    if (backward == nullptr) continue;
    piece.gradient = backward->gradient.narrow(0, from, n);
    give_way(pause);
    multiply_back(piece, matrix, backward->matrix_gradient, pause);
  }
  return sums;
}

}  // namespace slip
