// SPDX-License-Identifier: Apache-2.0
#include "server/draft_series.h"

#include <algorithm>

namespace slip {
namespace {

prometheus::Family<prometheus::Counter>& counters(prometheus::Registry& registry, const std::string& name,
                                                  const std::string& help) {
  return prometheus::BuildCounter().Name("slipstream:spec_decode_num_" + name).Help(help).Register(registry);
}

prometheus::Labels labels_of(const SeriesKey& key) {
  return {{"topic", key.topic}, {"draft", key.draft}, {"version", std::to_string(key.version)}};
}

prometheus::Labels labels_with(const SeriesKey& key, const std::string& name, const std::string& value) {
  prometheus::Labels labels = labels_of(key);
  labels[name] = value;
  return labels;
}

}  // namespace

DraftSeries::DraftSeries(prometheus::Registry& registry)
    : drafts_(counters(registry, "drafts_total", "Verifications of at least one drafted token")),
      proposed_(counters(registry, "draft_tokens_total", "Drafted tokens")),
      accepted_(counters(registry, "accepted_tokens_total", "Drafted tokens the target kept, first choices")),
      siblings_(counters(registry, "accepted_sibling_tokens_total",
                         "Drafted tokens the target kept that were not the first choice for their place")),
      emitted_(counters(registry, "emitted_tokens_total", "Tokens sent: accepted ones and those the target added")),
      proposed_by_(counters(registry, "draft_tokens_per_proposer_total", "Drafted tokens, by what proposed them")),
      accepted_by_(counters(registry, "accepted_tokens_per_proposer_total",
                            "First choices the target kept, by what proposed them")),
      accepted_of_(counters(registry, "accepted_tokens_per_rank_total",
                            "Drafted tokens the target kept, by rank among the choices for their place")),
      accepted_at_(counters(registry, "accepted_tokens_per_pos_total",
                            "First choices the target kept, by position in the draft")) {}

void DraftSeries::add(const SeriesKey& key, const RequestFigures& figures) {
  Series& series = series_for(key);
  series.drafts->Increment(figures.reached_at.empty() ? 0 : figures.reached_at.front());
  series.proposed->Increment(figures.proposed);
  series.accepted->Increment(figures.accepted);
  series.siblings->Increment(figures.accepted_siblings);
  series.emitted->Increment(figures.output_tokens);
  add_proposers(series, figures);
  add_positions(series, key, figures);
  AcceptanceCount& count = series.count;
  ++count.requests;
  count.accepted += static_cast<std::uint64_t>(figures.accepted);
  count.first_rejections += static_cast<std::uint64_t>(figures.first_rejections);
  count.proposed += static_cast<std::uint64_t>(figures.proposed);
  count.steps += static_cast<std::uint64_t>(figures.steps);
  count.emitted += static_cast<std::uint64_t>(figures.output_tokens);
}

void DraftSeries::add_proposers(Series& series, const RequestFigures& figures) {
  for (std::size_t by = 0; by < kProposers; ++by) {
    series.proposed_by[by]->Increment(figures.by_proposer[by].proposed);
    series.accepted_by[by]->Increment(figures.by_proposer[by].accepted);
  }
  for (std::size_t rank = 0; rank < series.accepted_of.size(); ++rank) {
    series.accepted_of[rank]->Increment(figures.accepted_by_rank[rank]);
  }
}

void DraftSeries::add_positions(Series& series, const SeriesKey& key, const RequestFigures& figures) {
  for (std::size_t i = 0; i < std::min(figures.accepted_at.size(), series.accepted_at.size()); ++i) {
    if (series.accepted_at[i] == nullptr) {
      series.accepted_at[i] = &accepted_at_.Add(labels_with(key, "position", std::to_string(i)));
    }
    series.accepted_at[i]->Increment(figures.accepted_at[i]);
  }
}

DraftSeries::Series& DraftSeries::series_for(const SeriesKey& key) {
  const auto found = series_.find(key);
  if (found != series_.end()) return found->second;
  if (series_.size() >= kMaxSeries) remove_oldest();
  const prometheus::Labels labels = labels_of(key);
  Series fresh{&drafts_.Add(labels), &proposed_.Add(labels), &accepted_.Add(labels), &siblings_.Add(labels),
               &emitted_.Add(labels)};
  for (std::size_t by = 0; by < kProposers; ++by) {
    const prometheus::Labels one = labels_with(key, "proposer", proposer_name(static_cast<ProposedBy>(by)));
    fresh.proposed_by[by] = &proposed_by_.Add(one);
    fresh.accepted_by[by] = &accepted_by_.Add(one);
  }
  for (std::size_t rank = 0; rank < fresh.accepted_of.size(); ++rank) {
    fresh.accepted_of[rank] = &accepted_of_.Add(labels_with(key, "rank", std::to_string(rank)));
  }
  fresh.number = ++n_created_;
  return series_.emplace(key, fresh).first->second;
}

void DraftSeries::remove_oldest() {
  const auto oldest = std::min_element(series_.begin(), series_.end(), [](const auto& one, const auto& other) {
    return one.second.number < other.second.number;
  });
  const Series& old = oldest->second;
  drafts_.Remove(old.drafts);
  proposed_.Remove(old.proposed);
  accepted_.Remove(old.accepted);
  siblings_.Remove(old.siblings);
  emitted_.Remove(old.emitted);
  for (Counter* counter : old.proposed_by) proposed_by_.Remove(counter);
  for (Counter* counter : old.accepted_by) accepted_by_.Remove(counter);
  for (Counter* counter : old.accepted_of) accepted_of_.Remove(counter);
  for (Counter* counter : old.accepted_at) {
    if (counter != nullptr) accepted_at_.Remove(counter);
  }
  series_.erase(oldest);
}

AcceptanceCount DraftSeries::acceptance(const std::string& draft, std::uint64_t version) const {
  AcceptanceCount sum;
  for (const auto& [key, series] : series_) {
    if (key.draft != draft || key.version != version) continue;
    sum.requests += series.count.requests;
    sum.accepted += series.count.accepted;
    sum.first_rejections += series.count.first_rejections;
    sum.proposed += series.count.proposed;
    sum.steps += series.count.steps;
    sum.emitted += series.count.emitted;
  }
  return sum;
}

}  // namespace slip
