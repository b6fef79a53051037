// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "engine/request.h"
#include "engine/speculative/proposal.h"

namespace slip {

// The series in which a request is counted. At most kMaxSeries exist: the oldest of all is removed for a new one.
struct SeriesKey {
  std::string topic, draft;
  std::uint64_t version = 0;
  auto operator<=>(const SeriesKey&) const = default;
};

// α of one draft version: accepted / (accepted + first_rejections), never accepted / proposed.
struct AcceptanceCount {
  std::uint64_t requests = 0, accepted = 0, first_rejections = 0, proposed = 0, steps = 0, emitted = 0;
};

// The speculation counters of each (topic, draft, version). Threads: one at a time. Takes the metric families' own
// locks, so never call it on the engine's thread.
class DraftSeries {
 public:
  static constexpr std::size_t kMaxSeries = 64;  // (topic, draft, version) triples

  explicit DraftSeries(prometheus::Registry& registry);
  void add(const SeriesKey& key, const RequestFigures& figures);
  AcceptanceCount acceptance(const std::string& draft, std::uint64_t version) const;

 private:
  using Counter = prometheus::Counter;
  using Counters = prometheus::Family<Counter>;

  // Pointers are valid until the series is removed.
  struct Series {
    Counter *drafts, *proposed, *accepted, *siblings, *emitted;
    std::array<Counter*, kProposers> proposed_by{}, accepted_by{};
    std::array<Counter*, kMaxTreeWidth> accepted_of{};  // by rank
    std::array<Counter*, kMaxProposalNodes> accepted_at{};
    AcceptanceCount count;
    std::uint64_t number = 0;  // ascends in the order of creation
  };
  Series& series_for(const SeriesKey& key);
  static void add_proposers(Series& series, const RequestFigures& figures);
  void add_positions(Series& series, const SeriesKey& key, const RequestFigures& figures);
  void remove_oldest();

  Counters &drafts_, &proposed_, &accepted_, &siblings_, &emitted_, &proposed_by_, &accepted_by_, &accepted_of_,
      &accepted_at_;
  std::map<SeriesKey, Series> series_;
  std::uint64_t n_created_ = 0;
};

}  // namespace slip
