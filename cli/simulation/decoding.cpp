// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/decoding.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "common/error.h"
#include "kernels/elementwise.h"

namespace slip {
namespace {

std::int32_t slots_of(const DecodingSize& size) {
  return std::max(size.most_context + size.most_rows, size.prefill_tokens);
}

std::int32_t pages_for(std::int32_t slots) {
  return (slots + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
}

std::int32_t rows_of(const DecodingSize& size) {
  return std::max(size.most_step_rows, size.most_chunk);
}

const DecodingSize& checked(const DecodingSize& size, const ModelConfig& config) {
  if (slots_of(size) > config.max_positions) {
    throw Error(ErrorCode::kInvalidArgument,
                "--context " + std::to_string(size.most_context) + " with " + std::to_string(size.most_rows) +
                    " rows, or --prefill " + std::to_string(size.prefill_tokens) + ", is more than the model's " +
                    std::to_string(config.max_positions) + " positions",
                "give smaller ones", "context");
  }
  return size;
}

}  // namespace

Decoding::Decoding(std::shared_ptr<const ModelWeights> weights, const DecodingSize& size, kernels::ThreadPool& pool)
    : weights_(std::move(weights)),
      size_(checked(size, weights_->config)),
      worker_(weights_, rows_of(size_), size_.most_step_rows, (size_.most_sequences + 1) * pages_for(slots_of(size_)),
              pool) {
  for (std::int32_t s = 0; s < size_.most_sequences; ++s) {
    sequences_.emplace_back(worker_.cache());
    SLIP_CHECK(sequences_.back().reserve(slots_of(size_)), "the pool was made for these sequences");
  }
  logits_.resize(static_cast<std::size_t>(worker_.max_logit_rows()) *
                 static_cast<std::size_t>(weights_->config.vocab_size));
}

// The first sequence's rows repeat the tokens in its cache, so its content does not change. The other sequences have
// different rows, so a mix-up changes the results.
std::int32_t Decoding::token_at(std::int32_t sequence, std::int32_t position) const {
  return (7919 * (position % 100'000) + 11 + sequence) % weights_->config.vocab_size;
}

void Decoding::fill() {
  prefill(size_.most_context, size_.most_chunk);
  for (std::size_t s = 1; s < sequences_.size(); ++s) {
    for (std::int32_t slot = 0; slot < size_.most_context; ++slot) {
      const std::int32_t page = slot / PagePool::kPageTokens, offset = slot % PagePool::kPageTokens;
      worker_.cache().copy_slot(sequences_[0].pages()[page], offset, sequences_[s].pages()[page], offset);
    }
  }
}

void Decoding::step(const StepShape& shape, bool all_logits) {
  run({0, shape.n_sequences, shape.context, shape.n_rows}, all_logits);
}

void Decoding::prefill(std::int32_t n_tokens, std::int32_t chunk) {
  for (std::int32_t at = 0; at < n_tokens; at += chunk) {
    run({0, 1, at, std::min(chunk, n_tokens - at)}, /*all_logits=*/false);
  }
}

void Decoding::run(const Rows& rows, bool all_logits) {
  std::vector<std::int32_t> tokens, positions, row_begin = {0};
  std::vector<KvView> kv(static_cast<std::size_t>(rows.n_sequences));
  for (std::int32_t i = 0; i < rows.n_sequences; ++i) {
    KvView& view = kv[static_cast<std::size_t>(i)];
    view.pages = &sequences_[static_cast<std::size_t>(rows.first + i)];
    view.n_cached = rows.first_row;
    for (std::int32_t at = rows.first_row; at < rows.first_row + rows.n_rows; ++at) {
      tokens.push_back(token_at(rows.first + i, at));
      positions.push_back(at);
    }
    row_begin.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  std::vector<std::int32_t> logit_rows(all_logits ? tokens.size() : 1, row_begin.back() - 1);
  if (all_logits) std::iota(logit_rows.begin(), logit_rows.end(), 0);
  StepInput input;
  input.tokens = tokens;
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = kv;
  run(input, logit_rows);
}

void Decoding::run(StepInput& input, std::span<const std::int32_t> logit_rows) {
  input.logit_rows = logit_rows;
  StepOutput output;
  output.logits =
      TensorView::contiguous(logits_.data(), {std::ssize(logit_rows), std::int64_t{weights_->config.vocab_size}});
  worker_.run(input, output);
}

std::vector<std::int32_t> Decoding::continue_greedily(const std::vector<std::int32_t>& prompt, std::int32_t n_tokens) {
  PageTable pages(worker_.cache());
  for (const std::int32_t token : prompt) {
    if (token >= 0 && token < weights_->config.vocab_size) continue;
    throw Error(ErrorCode::kInvalidArgument, "--prompt-ids: " + std::to_string(token) + " is outside the vocabulary",
                "ids go from 0 to " + std::to_string(weights_->config.vocab_size - 1), "prompt-ids");
  }
  std::vector<std::int32_t> tokens = prompt;
  const auto n_prompt = static_cast<std::int32_t>(prompt.size());
  if (n_prompt < 1 || n_prompt > worker_.max_rows() || !pages.reserve(n_prompt + n_tokens)) {
    throw Error(ErrorCode::kInvalidArgument, "--prompt-ids: the prompt and its continuation do not fit",
                "at most " + std::to_string(std::min(worker_.max_rows(), slots_of(size_) - n_tokens)) + " ids",
                "prompt-ids");
  }
  std::int32_t n_cached = 0;
  while (std::ssize(tokens) < n_prompt + n_tokens) {
    const std::int32_t n = static_cast<std::int32_t>(tokens.size()) - n_cached;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), n_cached);
    const std::int32_t row_begin[2] = {0, n}, last[1] = {n - 1};
    KvView kv;
    kv.pages = &pages;
    kv.n_cached = n_cached;
    StepInput input;
    input.tokens = std::span(tokens).subspan(static_cast<std::size_t>(n_cached));
    input.positions = positions;
    input.row_begin = row_begin;
    input.kv = std::span(&kv, 1);
    run(input, last);
    n_cached += n;
    const auto logits = std::span(logits_).first(static_cast<std::size_t>(weights_->config.vocab_size));
    tokens.push_back(static_cast<std::int32_t>(kernels::argmax(logits)));
  }
  return {tokens.begin() + n_prompt, tokens.end()};
}

void Decoding::check(const StepShape& shape) {
  const auto vocab = static_cast<std::ptrdiff_t>(weights_->config.vocab_size);
  std::vector<float> singly;
  for (std::int32_t sequence = 0; sequence < shape.n_sequences; ++sequence) {
    for (std::int32_t row = 0; row < shape.n_rows; ++row) {
      run({sequence, 1, shape.context + row, 1}, /*all_logits=*/true);
      singly.insert(singly.end(), logits_.begin(), logits_.begin() + vocab);
    }
  }
  step(shape);
  SLIP_CHECK(std::memcmp(singly.data(), logits_.data(), singly.size() * sizeof(float)) == 0,
             "a pass over several rows gives other logits than one row at a time");
}

std::size_t Decoding::bytes_read(const StepShape& shape) const {
  std::size_t bytes = weights_->lm_head.bytes();
  for (const auto& layer : weights_->layers) {
    bytes += layer.qkv.bytes() + layer.attention_out.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  const std::size_t token_bytes = PagePool::page_bytes(weights_->config, weights_->dtype) / PagePool::kPageTokens;
  return bytes + token_bytes * static_cast<std::size_t>(shape.context) * static_cast<std::size_t>(shape.n_sequences);
}

}  // namespace slip
