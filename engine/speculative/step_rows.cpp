// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/step_rows.h"

#include <algorithm>

namespace slip {
namespace {

constexpr std::int32_t kWordBits = 64;

}  // namespace

void StepRows::clear() {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  row_begin_.assign(1, 0);
  above_.clear();
  seen_.clear();
  kv_.clear();
  branches_ = false;
}

std::int32_t StepRows::add(const SequenceRows& rows) {
  const std::int32_t begin = row_begin_.back();
  tokens_.insert(tokens_.end(), rows.tokens.begin(), rows.tokens.end());
  const auto last = static_cast<std::int32_t>(tokens_.size()) - 1;
  for (std::int32_t row = begin; row <= last; ++row) {
    positions_.push_back(rows.n_cached + row - begin);
    above_.push_back(row > begin ? row - 1 : -1);
  }
  if (rows.proposal != nullptr) add_nodes(*rows.proposal);
  end_sequence(rows, /*n_ahead=*/0);
  const std::int32_t first = rows.wanted == WantedLogits::kAll ? begin : last;
  const auto last_wanted = static_cast<std::int32_t>(logit_rows_.size()) + last - first;
  if (rows.wanted == WantedLogits::kNone) return last_wanted;
  for (std::int32_t row = first; row < row_begin_.back(); ++row) logit_rows_.push_back(row);
  return last_wanted;
}

void StepRows::add(const SequenceSlice& slice, const BranchPlaces& places) {
  tokens_.insert(tokens_.end(), slice.tokens.begin(), slice.tokens.end());
  positions_.insert(positions_.end(), places.positions.begin(), places.positions.end());
  above_.resize(tokens_.size(), -1);
  seen_.resize(tokens_.size() - places.seen.size(), 0);
  seen_.insert(seen_.end(), places.seen.begin(), places.seen.end());
  for (std::int32_t row = row_begin_.back(); row < std::ssize(tokens_); ++row) logit_rows_.push_back(row);
  end_sequence(slice, places.n_ahead);
  branches_ = true;
}

void StepRows::end_sequence(const SequenceSlice& slice, std::int32_t n_ahead) {
  row_begin_.push_back(static_cast<std::int32_t>(tokens_.size()));
  KvView& view = kv_.emplace_back();
  view.pages = slice.pages;
  view.n_cached = slice.n_cached;
  view.n_ahead = n_ahead;
}

void StepRows::add_nodes(const Proposal& proposal) {
  const auto first = static_cast<std::int32_t>(tokens_.size());
  tokens_.insert(tokens_.end(), proposal.tokens.begin(), proposal.tokens.end());
  for (std::size_t node = 0; node < proposal.size(); ++node) {
    const std::int32_t parent = proposal.parents[node];  // −1: the row before the first node
    above_.push_back(first + parent);
    positions_.push_back(positions_[static_cast<std::size_t>(first + parent)] + 1);
    branches_ |= parent != static_cast<std::int32_t>(node) - 1;
  }
}

// A row sees all that its parent row sees, and itself. Rows of a branch say what they see.
void StepRows::write_ancestors() {
  ancestor_words_ = 0;
  for (std::size_t s = 0; s + 1 < row_begin_.size(); ++s) {
    ancestor_words_ = std::max(ancestor_words_, (row_begin_[s + 1] - row_begin_[s] + kWordBits - 1) / kWordBits);
  }
  const auto words = static_cast<std::size_t>(ancestor_words_);
  seen_.resize(tokens_.size(), 0);
  ancestors_.assign(tokens_.size() * words, 0);
  for (std::size_t s = 0; s + 1 < row_begin_.size(); ++s) {
    for (std::int32_t row = row_begin_[s]; row < row_begin_[s + 1]; ++row) {
      std::uint64_t* seen = ancestors_.data() + static_cast<std::size_t>(row) * words;
      if (const std::uint64_t known = seen_[static_cast<std::size_t>(row)]; known != 0) {
        seen[0] = known;
        continue;
      }
      const std::int32_t above = above_[static_cast<std::size_t>(row)], own = row - row_begin_[s];
      if (above >= 0) std::copy_n(ancestors_.data() + static_cast<std::size_t>(above) * words, words, seen);
      seen[own / kWordBits] |= std::uint64_t{1} << (own % kWordBits);
    }
  }
}

StepInput StepRows::step() {
  StepInput input;
  input.tokens = tokens_;
  input.positions = positions_;
  input.row_begin = row_begin_;
  input.kv = kv_;
  input.logit_rows = logit_rows_;
  if (!branches_) return input;
  write_ancestors();
  input.ancestors = ancestors_;
  input.ancestor_words = ancestor_words_;
  return input;
}

}  // namespace slip
