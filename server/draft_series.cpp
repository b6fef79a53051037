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

}  // namespace

DraftSeries::DraftSeries(prometheus::Registry& registry)
    : drafts_(counters(registry, "drafts_total", "Verifications of at least one drafted token")),
      proposed_(counters(registry, "draft_tokens_total", "Drafted tokens")),
      accepted_(counters(registry, "accepted_tokens_total", "Drafted tokens the target kept, first choices")),
      siblings_(counters(registry, "accepted_sibling_tokens_total",
                         "Drafted tokens the target kept that were not the first choice for their place")),
      emitted_(counters(registry, "emitted_tokens_total", "Tokens sent: accepted ones and those the target added")),
      accepted_at_(counters(registry, "accepted_tokens_per_pos_total",
                            "First choices the target kept, by position in the draft")) {}

void DraftSeries::add(const SeriesKey& key, const RequestFigures& figures) {
  Series& series = series_for(key);
  series.drafts->Increment(figures.reached_at.empty() ? 0 : figures.reached_at.front());
  series.proposed->Increment(figures.proposed);
  series.accepted->Increment(figures.accepted);
  series.siblings->Increment(figures.accepted_siblings);
  series.emitted->Increment(figures.output_tokens);
  add_positions(series, key, figures);
  AcceptanceCount& count = series.count;
  ++count.requests;
  count.accepted += static_cast<std::uint64_t>(figures.accepted);
  count.first_rejections += static_cast<std::uint64_t>(figures.first_rejections);
  count.proposed += static_cast<std::uint64_t>(figures.proposed);
  count.steps += static_cast<std::uint64_t>(figures.steps);
  count.emitted += static_cast<std::uint64_t>(figures.output_tokens);
}

void DraftSeries::add_positions(Series& series, const SeriesKey& key, const RequestFigures& figures) {
  for (std::size_t i = 0; i < std::min(figures.accepted_at.size(), series.accepted_at.size()); ++i) {
    if (series.accepted_at[i] == nullptr) {
      prometheus::Labels labels = labels_of(key);
      labels["position"] = std::to_string(i);
      series.accepted_at[i] = &accepted_at_.Add(labels);
    }
    series.accepted_at[i]->Increment(figures.accepted_at[i]);
  }
}

DraftSeries::Series& DraftSeries::series_for(const SeriesKey& key) {
  const auto found = series_.find(key);
  if (found != series_.end()) return found->second;
  if (order_.size() >= kMaxSeries) {
    remove(order_.front());
    order_.pop_front();
  }
  order_.push_back(key);
  const prometheus::Labels labels = labels_of(key);
  const Series fresh{&drafts_.Add(labels), &proposed_.Add(labels), &accepted_.Add(labels), &siblings_.Add(labels),
                     &emitted_.Add(labels)};
  return series_.emplace(key, fresh).first->second;
}

void DraftSeries::remove(const SeriesKey& key) {
  const Series& old = series_.at(key);
  drafts_.Remove(old.drafts);
  proposed_.Remove(old.proposed);
  accepted_.Remove(old.accepted);
  siblings_.Remove(old.siblings);
  emitted_.Remove(old.emitted);
  for (Counter* counter : old.accepted_at) {
    if (counter != nullptr) accepted_at_.Remove(counter);
  }
  series_.erase(key);
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
