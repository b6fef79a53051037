// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_microbatch.h"

#include <algorithm>
#include <string>

#include "common/error.h"
#include "engine/speculative/lookup/prompt_lookup.h"

namespace slip {
namespace {

const TopK kNoTarget{};

// Whether serving proposes answer token `i` by prompt lookup instead of the draft. Call it with rising i.
bool is_looked_up(PromptLookup& lookup, const ReplayRecord& record, std::int64_t i) {
  const auto before = std::span(record.tokens).first(static_cast<std::size_t>(record.prompt_tokens + i));
  return lookup.after(before, record.prompt_tokens).is_confident();
}

void check_record(const ReplayRecord& record, std::int32_t vocab) {
  auto known = [vocab](std::int32_t id) { return id >= 0 && id < vocab; };
  bool good = record.prompt_tokens >= 0 && record.tokens.size() == record.prompt_tokens + record.target.size() &&
              std::all_of(record.tokens.begin(), record.tokens.end(), known);
  for (const TopK& row : record.target) {
    good = good && row.ids.size() == row.logprobs.size() && row.ids.size() <= static_cast<std::size_t>(vocab) &&
           std::all_of(row.ids.begin(), row.ids.end(), known);
  }
  if (!good) {
    throw Error(ErrorCode::kDataLoss,
                "the record of request " + std::to_string(record.request.value) + " is not of this draft's vocabulary",
                "it was written for another target; delete it from the replay folder");
  }
}

// Appends a record's rows. The row before answer token i predicts it, so an answer without a prompt loses its first
// token. Tokens beyond the draft's context are left out.
void append_record(const ReplayRecord& record, const ModelConfig& config, bool skip_looked_up, Microbatch& batch) {
  const auto n_tokens = static_cast<std::int64_t>(record.tokens.size());
  const std::int64_t n_rows = std::min<std::int64_t>(n_tokens - 1, config.max_positions);
  const std::int64_t first_row = std::max(record.prompt_tokens - 1, 0);
  if (n_rows <= first_row) return;
  batch.input.tokens.insert(batch.input.tokens.end(), record.tokens.begin(), record.tokens.begin() + n_rows);
  batch.input.lengths.push_back(n_rows);
  batch.input.wanted.push_back(n_rows - first_row);
  PromptLookup lookup;
  for (std::int64_t row = first_row; row < n_rows; ++row) {
    const std::int64_t i = row + 1 - record.prompt_tokens;
    const bool skipped = skip_looked_up && is_looked_up(lookup, record, i);
    batch.targets.push_back(skipped ? &kNoTarget : &record.target[i]);
  }
}

}  // namespace

std::int64_t Microbatch::rows() const {
  return std::count_if(targets.begin(), targets.end(), [](const TopK* target) { return !target->ids.empty(); });
}

std::vector<Microbatch> plan_microbatches(std::span<const ReplayRecord> records, const ModelConfig& config,
                                          std::int32_t max_tokens, bool skip_looked_up) {
  std::vector<Microbatch> batches;
  for (const ReplayRecord& record : records) {
    check_record(record, config.vocab_size);
    const bool full = !batches.empty() && !batches.back().input.tokens.empty() &&
                      batches.back().input.tokens.size() + record.tokens.size() > static_cast<std::size_t>(max_tokens);
    if (batches.empty() || full) batches.emplace_back();
    append_record(record, config, skip_looked_up, batches.back());
  }
  std::erase_if(batches, [](const Microbatch& batch) { return batch.rows() == 0; });
  return batches;
}

}  // namespace slip
