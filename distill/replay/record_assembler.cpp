// SPDX-License-Identifier: Apache-2.0
#include "distill/replay/record_assembler.h"

#include <algorithm>
#include <utility>

namespace slip {

namespace {

// Whether the sizes within an observation agree. A bug in the engine would otherwise cause an out-of-bounds read much
// later.
bool is_consistent(const Observation& observation) {
  return !observation.committed.empty() && observation.targets.size() == observation.committed.size() &&
         observation.n_accepted >= 0 &&
         static_cast<std::size_t>(observation.n_accepted) <= observation.committed.size();
}

}  // namespace

void RecordAssembler::begin(ObservedRequest request) {
  if (request.route.topic.value >= topics_.size() || request.prompt.empty()) return;
  while (open_.size() >= kMaxOpen) give_up_oldest();
  Assembly assembly;
  ReplayRecord& record = assembly.record;
  record.request = request.call.value == 0 ? request.request : request.call;
  record.name = name_hash(request.name);
  record.tenant = request.tenant;
  record.topic = topics_[request.route.topic].name;
  record.processed_logits = request.sampling.processes_logits();
  record.sampling = request.sampling;
  record.rule = request.rule;
  record.seed = request.sampling.seed.value_or(0);
  record.choice = request.choice;
  if (request.source) {
    record.sampled = true;
    record.request = request.source->call;
    record.name = request.source->name;
    record.group = request.source->group;
    record.created_us = request.source->created_us;
  }
  record.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  record.tokens = std::move(request.prompt);
  if (!open_.contains(request.request)) begun_.push_back(request.request);
  open_.insert_or_assign(request.request, std::move(assembly));
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
  const bool broken = assembly.broken || !follows || !is_consistent(observation);
  assembly.broken = true;  // a std::bad_alloc may leave add() with the tokens and without their targets
  if (!broken) add(assembly, observation);
  assembly.broken = broken;
}

void RecordAssembler::add(Assembly& assembly, const Observation& observation) const {
  ReplayRecord& record = assembly.record;
  record.tokens.insert(record.tokens.end(), observation.committed.begin(), observation.committed.end());
  record.target.insert(record.target.end(), observation.targets.begin(), observation.targets.end());
  record.accepted += observation.n_accepted;
  record.first_rejections += observation.rejected ? 1 : 0;
  record.steps += 1;
  record.draft_version = observation.draft_version;
  if (observation.draft_version != 0) record.draft = draft_name_(observation.draft);
}

std::optional<ReplayRecord> RecordAssembler::finish(RequestId request, bool completed) {
  auto node = open_.extract(request);
  forget_finished();
  if (node.empty() || !completed) return std::nullopt;
  Assembly& assembly = node.mapped();
  if (assembly.broken) lost_ += assembly.observations;
  if (assembly.broken || assembly.record.target.empty()) return std::nullopt;
  return std::move(assembly.record);
}

// After a request without an end, finished ones pile up. They are all removed at once, so that one call in kMaxOpen
// takes long.
void RecordAssembler::forget_finished() {
  while (!begun_.empty() && !open_.contains(begun_.front())) begun_.pop_front();
  if (begun_.size() <= open_.size() + kMaxOpen) return;
  std::erase_if(begun_, [&](RequestId request) { return !open_.contains(request); });
}

std::size_t RecordAssembler::forget(const PurgeScope& scope) {
  return std::erase_if(open_, [&](const auto& item) {
    const ReplayRecord& record = item.second.record;
    if (scope.before_us && !record.sampled) return false;
    return scope.contains(record.request, record.name, record.tenant, record.created_us);
  });
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
