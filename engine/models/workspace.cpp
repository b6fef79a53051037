// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/error.h"
#include "engine/models/workspace_buffers.h"

namespace slip {
namespace {

std::size_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

// For the products whose input is `hidden` or `attention` wide.
std::size_t scratch_bytes(const ModelConfig& config, std::int64_t n_rows) {
  const std::int64_t attention = std::int64_t{config.n_heads} * config.head_dim;
  return kernels::Activations::bytes(n_rows, std::max<std::int64_t>(config.hidden_size, attention));
}

}  // namespace

Workspace::Buffers::Buffers(const ModelConfig& config, std::int32_t rows, std::int32_t logit_rows)
    : max_rows(rows),
      max_logit_rows(logit_rows),
      residual(product(rows, config.hidden_size)),
      normed(product(rows, config.hidden_size)),
      qkv(product(rows, std::int64_t{config.n_heads + 2 * config.n_kv_heads} * config.head_dim)),
      attention(product(rows, std::int64_t{config.n_heads} * config.head_dim)),
      gated(kernels::Activations::bytes(rows, config.intermediate_size)),
      final_hidden(product(logit_rows, config.hidden_size)),
      scratch(scratch_bytes(config, std::max(rows, logit_rows))),
      attention_rows(static_cast<std::size_t>(rows)) {
  runs.reserve(static_cast<std::size_t>(rows));
}

Workspace::Workspace(const ModelConfig& config, std::int32_t max_rows, std::int32_t max_logit_rows) {
  SLIP_CHECK(max_rows > 0 && max_logit_rows > 0, "a workspace without rows");
  buffers_ = std::make_unique<Buffers>(config, max_rows, max_logit_rows);
}
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

std::int32_t Workspace::max_rows() const {
  return buffers_->max_rows;
}
std::int32_t Workspace::max_logit_rows() const {
  return buffers_->max_logit_rows;
}

}  // namespace slip
