// SPDX-License-Identifier: Apache-2.0
#include "distill/record_assembler.h"

#include <algorithm>
#include <utility>

#include "distill/record_codec.h"

namespace slip {

namespace {

// Whether the pieces of an observation fit together: the engine is ours, but one wrong index here would be read out of
// bounds at idle priority, long after.
bool is_consistent(const Observation& observation) {
  const std::size_t n = observation.proposed.size();
  const std::size_t path = observation.accepted.size();
  if (observation.committed.empty() || observation.committed.size() > path + 1) return false;
  if (observation.rows.size() != n + 1) return false;
  return std::all_of(observation.accepted.begin(), observation.accepted.end(),
                     [&](std::int32_t node) { return node >= 0 && static_cast<std::size_t>(node) < n; });
}

// The first proposed node the target refused: the child of the path's end that was judged. For a chain, the next one.
std::optional<std::int32_t> first_refused(const Observation& observation) {
  if (observation.committed.size() <= observation.accepted.size()) return std::nullopt;  // ended inside the path
  const std::int32_t end = observation.accepted.empty() ? -1 : observation.accepted.back();
  for (std::size_t node = 0; node < observation.parents.size(); ++node) {
    if (observation.parents[node] == end) return static_cast<std::int32_t>(node);
  }
  return std::nullopt;
}

}  // namespace

void RecordAssembler::begin(ObservedRequest request) {
  if (request.route.topic.value >= topics_.size() || request.prompt.empty()) return;
  while (open_.size() >= kMaxOpen) give_up_oldest();
  Assembly assembly;
  ReplayRecord& record = assembly.record;
  record.request = request.request;
  record.tenant = request.tenant;
  record.topic = topics_[request.route.topic].name;
  record.session_hash = request.session.empty() ? hash_tokens(request.prompt) : hash_session(request.session);
  record.sampling = request.sampling;
  record.rule = request.rule;
  record.seed = request.sampling.seed.value_or(0);
  record.choice = request.choice;
  record.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  record.tokens = std::move(request.prompt);
  if (open_.insert_or_assign(request.request, std::move(assembly)).second) begun_.push_back(request.request);
}

void RecordAssembler::record(const Observation& observation) {
  const auto found = open_.find(observation.request);
  if (found == open_.end()) {
    ++lost_;
    return;
  }
  Assembly& assembly = found->second;
  ++assembly.observations;
  const bool follows = static_cast<std::size_t>(observation.base_position) == assembly.record.tokens.size();
  assembly.broken = assembly.broken || !follows || !is_consistent(observation);
  if (!assembly.broken) add(assembly, observation);
}

// Row 0 predicts the first token this verification added, the row of each accepted node the one after it.
void RecordAssembler::add(Assembly& assembly, const Observation& observation) const {
  ReplayRecord& record = assembly.record;
  const std::size_t answered = record.target.size();
  const std::size_t added = observation.committed.size();
  const std::size_t accepted = std::min(observation.accepted.size(), added);
  for (std::size_t i = 0; i < added; ++i) {
    const std::size_t row = i == 0 ? 0 : 1 + static_cast<std::size_t>(observation.accepted[i - 1]);
    record.tokens.push_back(observation.committed[i]);
    record.target.push_back(observation.rows[row].target);
  }
  record.accepted += static_cast<std::int32_t>(accepted);
  record.steps += 1;
  record.draft_version = observation.draft_version;
  if (observation.draft_version != 0) record.draft = draft_name_(observation.draft);
  const auto refused = first_refused(observation);
  if (!refused) return;
  record.first_rejections += 1;
  if (record.off_path.size() >= kMaxOffPath) return;
  ReplayRecord::OffPath off_path;
  off_path.anchor = static_cast<std::int32_t>(answered + accepted);
  off_path.path = {observation.proposed[static_cast<std::size_t>(*refused)]};
  off_path.target = observation.rows[1 + static_cast<std::size_t>(*refused)].target;
  record.off_path.push_back(std::move(off_path));
}

std::optional<ReplayRecord> RecordAssembler::finish(RequestId request, bool completed) {
  auto node = open_.extract(request);
  while (!begun_.empty() && !open_.contains(begun_.front())) begun_.pop_front();
  if (node.empty() || !completed) return std::nullopt;
  Assembly& assembly = node.mapped();
  if (assembly.broken) lost_ += assembly.observations;
  if (assembly.broken || assembly.record.target.empty()) return std::nullopt;
  return std::move(assembly.record);
}

void RecordAssembler::give_up_oldest() {
  const RequestId oldest = begun_.front();
  begun_.pop_front();
  const auto found = open_.find(oldest);
  if (found == open_.end()) return;
  lost_ += found->second.observations;
  open_.erase(found);
}

}  // namespace slip
