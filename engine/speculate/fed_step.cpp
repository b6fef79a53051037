// SPDX-License-Identifier: Apache-2.0
#include "engine/speculate/fed_step.h"

#include "engine/speculate/draft_family.h"

namespace slip {

StepInput FedStep::of(std::span<const DraftFeed> feeds) {
  tokens_.clear();
  positions_.clear();
  row_begin_.assign(1, 0);
  logit_rows_.clear();
  kv_.clear();
  for (const DraftFeed& feed : feeds) {
    tokens_.insert(tokens_.end(), feed.tokens.begin(), feed.tokens.end());
    for (std::size_t i = 0; i < feed.tokens.size(); ++i) {
      positions_.push_back(feed.n_cached + static_cast<std::int32_t>(i));
    }
    row_begin_.push_back(static_cast<std::int32_t>(tokens_.size()));
    if (feed.wants_logits) logit_rows_.push_back(row_begin_.back() - 1);
    KvView view;
    view.pages = feed.pages;
    view.n_cached = feed.n_cached;
    kv_.push_back(view);
  }
  StepInput input;
  input.tokens = tokens_;
  input.positions = positions_;
  input.row_begin = row_begin_;
  input.kv = kv_;
  input.logit_rows = logit_rows_;
  return input;
}

}  // namespace slip
