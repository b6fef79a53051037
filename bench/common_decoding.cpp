// SPDX-License-Identifier: Apache-2.0
#include "bench/common_decoding.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "common/error.h"
#include "kernels/elementwise.h"

namespace slip::bench {
namespace {

std::int32_t slots_of(const DecodingSize& size) {
  return std::max(size.most_context + size.most_rows, size.prefill_tokens);
}

std::int32_t pages_for(std::int32_t slots) {
  return (slots + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
}

std::int32_t rows_of(const DecodingSize& size) {
  return std::max({size.most_rows, size.most_sequences, size.most_chunk});
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

const char* layout_name(Layout layout) {
  return layout == Layout::kRows ? "rows" : "sequences";
}

Decoding::Decoding(std::shared_ptr<const ModelWeights> weights, const DecodingSize& size, kernels::ThreadPool& pool)
    : weights_(std::move(weights)),
      size_(checked(size, weights_->config)),
      worker_(weights_, rows_of(size_), std::max(size_.most_rows, size_.most_sequences),
              (size_.most_sequences + 1) * pages_for(slots_of(size_)), pool) {
  for (std::int32_t s = 0; s < size_.most_sequences; ++s) {
    sequences_.emplace_back(worker_.cache());
    SLIP_CHECK(sequences_.back().reserve(slots_of(size_)), "the pool was made for these sequences");
  }
  logits_.resize(static_cast<std::size_t>(worker_.max_logit_rows()) *
                 static_cast<std::size_t>(weights_->config.vocab_size));
}

std::int32_t Decoding::token_at(std::int32_t position) const {
  return (7919 * (position % 100'000) + 11) % weights_->config.vocab_size;
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

void Decoding::step(const StepShape& shape) {
  if (shape.layout == Layout::kRows) {
    step_rows(shape.context, shape.n, /*all_logits=*/true);
  } else {
    step_sequences(0, shape.n, shape.context);
  }
}

void Decoding::prefill(std::int32_t n_tokens, std::int32_t chunk) {
  for (std::int32_t at = 0; at < n_tokens; at += chunk) {
    step_rows(at, std::min(chunk, n_tokens - at), /*all_logits=*/false);
  }
}

// Rows [first, first + n) of the first sequence. They hold the tokens that are in the cache there, if any, and so leave
// its bits as they were.
void Decoding::step_rows(std::int32_t first, std::int32_t n, bool all_logits) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n)), positions(tokens.size());
  std::iota(positions.begin(), positions.end(), first);
  std::transform(positions.begin(), positions.end(), tokens.begin(), [&](std::int32_t at) { return token_at(at); });
  std::vector<std::int32_t> logit_rows(all_logits ? tokens.size() : 1, n - 1);
  if (all_logits) std::iota(logit_rows.begin(), logit_rows.end(), 0);
  const std::int32_t row_begin[2] = {0, n};
  KvView kv;
  kv.pages = sequences_.data();
  kv.n_cached = first;
  StepInput input;
  input.tokens = tokens;
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = std::span(&kv, 1);
  run(input, logit_rows);
}

// A row for each of sequences [first, first + n), all with other tokens, so that none could stand for another.
void Decoding::step_sequences(std::int32_t first, std::int32_t n, std::int32_t context) {
  const auto count = static_cast<std::size_t>(n);
  std::vector<std::int32_t> tokens(count), positions(count, context), logit_rows(count), row_begin(count + 1);
  std::vector<KvView> kv(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto sequence = first + static_cast<std::int32_t>(i);
    tokens[i] = (token_at(context) + sequence) % weights_->config.vocab_size;
    kv[i].pages = &sequences_[static_cast<std::size_t>(sequence)];
    kv[i].n_cached = context;
  }
  std::iota(logit_rows.begin(), logit_rows.end(), 0);
  std::iota(row_begin.begin(), row_begin.end(), 0);
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
  for (std::int32_t i = 0; i < shape.n; ++i) {
    if (shape.layout == Layout::kRows) {
      step_rows(shape.context + i, 1, /*all_logits=*/true);
    } else {
      step_sequences(i, 1, shape.context);
    }
    singly.insert(singly.end(), logits_.begin(), logits_.begin() + vocab);
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
  const std::int32_t n_sequences = shape.layout == Layout::kRows ? 1 : shape.n;
  return bytes + token_bytes * static_cast<std::size_t>(shape.context) * static_cast<std::size_t>(n_sequences);
}

}  // namespace slip::bench
