// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/purge_scope.h"
#include "distill/replay/replay_record.h"
#include "router/topic.h"

namespace slip {

// Assembles the observations of each request into one ReplayRecord. A request gives no record if it failed, was
// cancelled, or lacks observations that were dropped on the way. Requests whose finish() was dropped are given up,
// oldest first. Threads: one owner.
class RecordAssembler {
 public:
  static constexpr std::size_t kMaxOpen = 1024;  // far more than run at once; only requests without finish() pile up

  // `draft_name` maps the draft id of an observation to the name that records store.
  RecordAssembler(const TopicTable& topics, std::function<std::string(DraftId)> draft_name)
      : topics_(topics), draft_name_(std::move(draft_name)) {}

  void begin(ObservedRequest request);
  void record(const Observation& observation);
  std::optional<ReplayRecord> finish(RequestId request, bool completed);
  // Drops the unfinished requests of a scope and returns their number. A scope with a time contains only background
  // requests, by the time of the client's answer; all others finish later.
  std::size_t forget(const PurgeScope& scope);
  // The number of observations since the last call that became part of no record, except those of failed or cancelled
  // requests.
  std::uint64_t take_lost() { return std::exchange(lost_, 0); }
  std::size_t open_requests() const { return open_.size(); }
  // The open requests, and at most kMaxOpen finished ones that still have a place in the order.
  std::size_t ordered_requests() const { return begun_.size(); }

 private:
  struct Assembly {
    ReplayRecord record;
    std::uint64_t observations = 0;
    bool broken = false;
  };
  void add(Assembly& assembly, const Observation& observation) const;
  void give_up_oldest();
  void forget_finished();

  const TopicTable& topics_;
  std::function<std::string(DraftId)> draft_name_;
  std::unordered_map<RequestId, Assembly> open_;
  std::deque<RequestId> begun_;  // in order; a finished one is removed once it reaches the front, or there are many
  std::uint64_t lost_ = 0;
};

}  // namespace slip
