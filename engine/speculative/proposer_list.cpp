// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/proposer_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace slip {

ProposerList::ProposerList(std::vector<std::unique_ptr<Proposer>> proposers) : proposers_(std::move(proposers)) {}

Proposer* ProposerList::first_for(const SequenceRef& sequence) const {
  const auto found = std::find_if(proposers_.begin(), proposers_.end(),
                                  [&](const auto& proposer) { return proposer->drafts_for(sequence); });
  return found == proposers_.end() ? nullptr : found->get();
}

Proposer* ProposerList::of(RequestId sequence) const {
  const auto found = proposer_of_.find(sequence);
  return found == proposer_of_.end() ? nullptr : found->second;
}

std::span<const DraftTask> ProposerList::tasks_of(const Proposer& proposer, std::span<const DraftTask> tasks) {
  tasks_.clear();
  std::copy_if(tasks.begin(), tasks.end(), std::back_inserter(tasks_),
               [&](const DraftTask& task) { return of(task.sequence->id) == &proposer; });
  return tasks_;
}

void ProposerList::begin(const SequenceRef& sequence) {
  Proposer* proposer = first_for(sequence);
  if (proposer == nullptr) return;
  proposer_of_[sequence.id] = proposer;
  proposer->begin(sequence);
}

CatchUpTimes ProposerList::catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) {
  CatchUpTimes sum;
  for (const auto& proposer : proposers_) {
    const auto own = tasks_of(*proposer, tasks);
    if (own.empty()) continue;
    const CatchUpTimes times = proposer->catch_up(own, budget);
    sum.read_us += times.read_us;
    sum.swap_us += times.swap_us;
  }
  return sum;
}

std::int32_t ProposerList::ready_depth(const SequenceRef& sequence) {
  Proposer* proposer = of(sequence.id);
  return proposer == nullptr ? 0 : proposer->ready_depth(sequence);
}

Guesses ProposerList::guesses(const SequenceRef& sequence) {
  Proposer* proposer = of(sequence.id);
  return proposer == nullptr ? Guesses() : proposer->guesses(sequence);
}

std::int32_t ProposerList::propose(std::span<const DraftTask> tasks) {
  std::int32_t n_passes = 0;
  for (const auto& proposer : proposers_) {
    if (const auto own = tasks_of(*proposer, tasks); !own.empty()) n_passes += proposer->propose(own);
  }
  return n_passes;
}

void ProposerList::on_verified(const SequenceRef& sequence, const VerifyResult& result) {
  if (Proposer* proposer = of(sequence.id)) proposer->on_verified(sequence, result);
}

void ProposerList::release(RequestId sequence) {
  const auto found = proposer_of_.find(sequence);
  if (found == proposer_of_.end()) return;
  found->second->release(sequence);
  proposer_of_.erase(found);
}

}  // namespace slip
