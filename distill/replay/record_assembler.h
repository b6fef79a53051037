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

// Puts the observations of each request together into one ReplayRecord. A request whose observations have a gap (some
// were dropped on the way), that failed or was cancelled gives none; requests whose end got lost are given up oldest
// first. Threads: one owner.
class RecordAssembler {
 public:
  static constexpr std::size_t kMaxOpen = 1024;  // far more than run at once; only lost ends pile up

  // `draft_name` turns the id of an observation into the name that records keep.
  RecordAssembler(const TopicTable& topics, std::function<std::string(DraftId)> draft_name)
      : topics_(topics), draft_name_(std::move(draft_name)) {}

  void begin(ObservedRequest request);
  void record(const Observation& observation);
  std::optional<ReplayRecord> finish(RequestId request, bool completed);
  // Drops the requests of a scope that have not finished; how many. One with a time reaches none: they finish later.
  std::size_t forget(const PurgeScope& scope);
  // Observations that came to nothing, a failed or cancelled request's aside, since the last call.
  std::uint64_t take_lost() { return std::exchange(lost_, 0); }
  std::size_t open_requests() const { return open_.size(); }

 private:
  struct Assembly {
    ReplayRecord record;
    std::uint64_t observations = 0;
    bool broken = false;
  };
  void add(Assembly& assembly, const Observation& observation) const;
  void give_up_oldest();

  const TopicTable& topics_;
  std::function<std::string(DraftId)> draft_name_;
  std::unordered_map<RequestId, Assembly> open_;
  std::deque<RequestId> begun_;  // in order; finished ones linger until they reach the front
  std::uint64_t lost_ = 0;
};

}  // namespace slip
