// SPDX-License-Identifier: Apache-2.0
#include "engine/models/finite_logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/error.h"
#include "engine/sampling/distribution.h"

namespace slip {
namespace {

// Prefers an end token, which training has used; the first ids of a vocabulary may be unused.
std::int32_t token_to_read(const ModelConfig& config) {
  for (const std::int32_t id : config.eos_ids) {
    if (id >= 0 && id < config.vocab_size) return id;
  }
  return 0;
}

std::vector<float> logits_behind(std::int32_t token, Worker& worker) {
  constexpr std::array<std::int32_t, 1> kFirst{0};
  constexpr std::array<std::int32_t, 2> kOneRow{0, 1};
  const std::array<std::int32_t, 1> tokens{token};
  PageTable pages(worker.cache());
  SLIP_CHECK(pages.reserve(1), "nothing runs yet, so that all pages are free");
  KvView kv;
  kv.pages = &pages;
  StepInput input;
  input.tokens = tokens;
  input.positions = kFirst;
  input.row_begin = kOneRow;
  input.kv = {&kv, 1};
  input.logit_rows = kFirst;
  std::vector<float> logits(static_cast<std::size_t>(worker.config().vocab_size));
  StepOutput output;
  output.logits = TensorView::contiguous(logits.data(), {1, worker.config().vocab_size});
  worker.run(input, output);
  return logits;
}

}  // namespace

void require_finite_logits(Worker& worker, const std::string& where) {
  const std::vector<float> logits = logits_behind(token_to_read(worker.config()), worker);
  // Minus infinity too: such a row is one of plus infinity after other tokens.
  if (std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) return;
  const Error error = broken_logits();
  throw Error(error.code(), "the model in " + where + " cannot be used: " + error.message(), error.hint(), "target");
}

}  // namespace slip
