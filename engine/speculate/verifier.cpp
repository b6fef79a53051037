// SPDX-License-Identifier: Apache-2.0
#include "engine/speculate/verifier.h"

#include <algorithm>
#include <functional>

#include "common/error.h"
#include "engine/speculate/acceptance.h"
#include "engine/speculate/observe.h"
#include "engine/speculate/proposer.h"
#include "engine/speculate/token_path.h"

namespace slip {

namespace {

constexpr std::int32_t kWordBits = 64;

std::size_t n_nodes(const ScoreTask& task) {
  return task.proposal == nullptr ? 0 : task.proposal->size();
}

void set_bit(std::span<std::uint64_t> words, std::size_t bit) {
  words[bit / kWordBits] |= std::uint64_t{1} << (bit % kWordBits);
}

}  // namespace

bool is_chain(const Proposal& proposal) {
  for (std::size_t i = 0; i < proposal.size(); ++i) {
    if (proposal.parents[i] != static_cast<std::int32_t>(i) - 1) return false;
  }
  return true;
}

Verifier::Verifier(Worker& worker)
    : worker_(worker),
      logits_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(worker.max_logit_rows()) *
                                                      static_cast<std::size_t>(worker.config().vocab_size))) {}

void Verifier::add_nodes(const ScoreTask& task) {
  const auto first = static_cast<std::int32_t>(positions_.size());
  const std::int32_t root_position = task.n_cached + static_cast<std::int32_t>(task.tokens.size()) - 1;
  for (std::size_t i = 0; i < n_nodes(task); ++i) {
    const std::int32_t parent = task.proposal->parents[i];
    const std::int32_t above = parent < 0 ? root_position : positions_[static_cast<std::size_t>(first + parent)];
    tokens_.push_back(task.proposal->tokens[i]);
    positions_.push_back(above + 1);
  }
}

void Verifier::gather(std::span<const ScoreTask> tasks) {
  tokens_.clear();
  positions_.clear();
  row_begin_.assign(1, 0);
  logit_rows_.clear();
  first_logit_row_.clear();
  kv_.clear();
  for (const ScoreTask& task : tasks) {
    for (std::size_t i = 0; i < task.tokens.size(); ++i) {
      tokens_.push_back(task.tokens[i]);
      positions_.push_back(task.n_cached + static_cast<std::int32_t>(i));
    }
    const auto last = static_cast<std::int32_t>(tokens_.size()) - 1;
    const std::int32_t first = task.wants_all_logits ? row_begin_.back() : last;
    first_logit_row_.push_back(static_cast<std::int32_t>(logit_rows_.size()) + last - first);
    add_nodes(task);
    row_begin_.push_back(static_cast<std::int32_t>(tokens_.size()));
    const bool wants_some = task.wants_logits || task.wants_all_logits;
    for (std::int32_t row = first; wants_some && row < row_begin_.back(); ++row) logit_rows_.push_back(row);
    KvView view;
    view.pages = task.pages;
    view.n_cached = task.n_cached;
    kv_.push_back(view);
  }
}

// Row r of a sequence sees its committed rows up to itself; a node sees all of them, its path and itself.
void Verifier::write_ancestors(std::span<const ScoreTask> tasks) {
  ancestors_.clear();
  ancestor_words_ = 0;
  const auto branches = [](const ScoreTask& task) { return task.proposal != nullptr && !is_chain(*task.proposal); };
  if (std::none_of(tasks.begin(), tasks.end(), branches)) return;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const std::int32_t n = row_begin_[t + 1] - row_begin_[t];
    ancestor_words_ = std::max(ancestor_words_, (n + kWordBits - 1) / kWordBits);
  }
  const auto words = static_cast<std::size_t>(ancestor_words_);
  ancestors_.assign(tokens_.size() * words, 0);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto begin = static_cast<std::size_t>(row_begin_[t]);
    const std::size_t n_committed = tasks[t].tokens.size();
    const auto row = [&](std::size_t i) { return std::span(ancestors_).subspan((begin + i) * words, words); };
    for (std::size_t i = 0; i < n_committed; ++i) {
      for (std::size_t j = 0; j <= i; ++j) set_bit(row(i), j);
    }
    for (std::size_t node = 0; node < n_nodes(tasks[t]); ++node) {
      const std::int32_t parent = tasks[t].proposal->parents[node];
      const auto above = row(parent < 0 ? n_committed - 1 : n_committed + static_cast<std::size_t>(parent));
      std::copy(above.begin(), above.end(), row(n_committed + node).begin());
      set_bit(row(n_committed + node), n_committed + node);
    }
  }
}

void Verifier::score(std::span<const ScoreTask> tasks) {
  tasks_ = tasks;
  gather(tasks);
  write_ancestors(tasks);
  StepInput input;
  input.tokens = tokens_;
  input.positions = positions_;
  input.row_begin = row_begin_;
  input.ancestors = ancestors_;
  input.ancestor_words = ancestor_words_;
  input.kv = kv_;
  input.logit_rows = logit_rows_;
  run(input);
}

void Verifier::run(const StepInput& input) {
  StepOutput output;
  output.logits = TensorView::contiguous(logits_.get(),
                                         {static_cast<std::int64_t>(logit_rows_.size()), worker_.config().vocab_size});
  worker_.run(input, output);
}

Verifier::LogitRows Verifier::logit_rows(std::size_t index) const {
  const ScoreTask& task = tasks_[index];
  const std::int32_t row = first_logit_row_[index];
  if (!task.wants_logits && !task.wants_all_logits) return {row, row};
  const auto n_before = task.wants_all_logits ? static_cast<std::int32_t>(task.tokens.size()) - 1 : 0;
  return {row - n_before, row + 1 + static_cast<std::int32_t>(n_nodes(task))};
}

float* Verifier::host_row(std::int32_t logit_row) const {
  return logits_.get() + static_cast<std::size_t>(logit_row) * static_cast<std::size_t>(worker_.config().vocab_size);
}

std::span<const float> Verifier::logits(std::size_t task, std::int32_t row) const {
  return {host_row(first_logit_row_[task] + row), static_cast<std::size_t>(worker_.config().vocab_size)};
}

bool Verifier::judges_on_device(const SamplingParams& /*sampling*/) const {
  return false;
}

void Verifier::judge(std::size_t index, Verdict& verdict) {
  const ScoreTask& task = tasks_[index];
  SLIP_CHECK(task.sequence != nullptr && task.proposal != nullptr, "a verdict is asked for before the pass");
  const SequenceRef& sequence = *task.sequence;
  // Rows behind a refused token are never looked at, so they are never transformed.
  const auto p_after = [&](std::int32_t node) -> const Distribution& {
    write_token_path(sequence.tokens, *task.proposal, node, path_);
    transform_logits(logits(index, node + 1), *sequence.sampling, sequence.row_context(path_), p_);
    return p_;
  };
  accept(*task.proposal, std::cref(p_after), sequence.rule, sequence.next_address(), verdict);
}

TopK Verifier::observed(std::size_t task, std::int32_t row) {
  return observe_row(logits(task, row), tasks_[task].top_k);
}

void Verifier::keep_path(const ScoreTask& task, std::span<const std::int32_t> accepted) {
  constexpr std::int32_t kPage = PagePool::kPageTokens;
  const std::int32_t base = task.n_cached + static_cast<std::int32_t>(task.tokens.size());
  // accepted[i] ≥ i, so moving in order never overwrites what is still to be moved.
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const std::int32_t from = base + accepted[i], to = base + static_cast<std::int32_t>(i);
    if (from == to) continue;
    worker_.cache().copy_slot(task.pages->pages()[from / kPage], from % kPage, task.pages->pages()[to / kPage],
                              to % kPage);
  }
}

}  // namespace slip
