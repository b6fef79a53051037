// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace slip {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

constexpr std::size_t kMaxSeries = 64;     // (topic, draft, version) triples alive at once
constexpr std::size_t kMaxPositions = 16;  // EngineOptions::k at most

const Histogram::BucketBoundaries kLatencySeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
const Histogram::BucketBoundaries kTokenSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1};
const Histogram::BucketBoundaries kStallSeconds = {0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1};

double seconds(std::int64_t us) {
  return static_cast<double>(us) / 1e6;
}

// One (topic, draft, version)'s counters; pointers stay good until the series is removed.
struct Series {
  Counter *drafts, *proposed, *accepted, *emitted;
  std::array<Counter*, kMaxPositions> accepted_at{};
  AcceptanceCount count;
};

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  Family<Counter>& counters(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name("slipstream:" + name).Help(help).Register(registry);
  }
  Family<Gauge>& gauges(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name("slipstream:" + name).Help(help).Register(registry);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const Histogram::BucketBoundaries& bounds) {
    return prometheus::BuildHistogram().Name("slipstream:" + name).Help(help).Register(registry).Add({}, bounds);
  }

  Family<Counter>& drafts = counters("spec_decode_num_drafts_total", "Verifications of at least one drafted token");
  Family<Counter>& proposed = counters("spec_decode_num_draft_tokens_total", "Drafted tokens");
  Family<Counter>& accepted = counters("spec_decode_num_accepted_tokens_total", "Drafted tokens the target kept");
  Family<Counter>& emitted =
      counters("spec_decode_num_emitted_tokens_total", "Tokens sent: accepted ones and those the target added");
  Family<Counter>& accepted_at = counters("spec_decode_num_accepted_tokens_per_pos_total",
                                          "Drafted tokens the target kept, by position in the draft");
  Family<Counter>& http = counters("http_requests_total", "HTTP requests by route and status");
  Family<Counter>& routed =
      counters("requests_routed_total", "Generations by topic and what said it: label, inferred or none");
  Family<Counter>& finished = counters("requests_finished_total", "Generations by the reason they ended");
  Family<Counter>& published = counters("publish_total", "Canary outcomes");
  Family<Counter>& dropped = counters("dropped_total", "What was dropped rather than waited for");
  Family<Counter>& train_steps = counters("train_steps_total", "Optimizer steps by draft, as of its last decision");
  Counter& prompt_tokens = counters("prompt_tokens_total", "Prompt tokens read").Add({});
  Counter& generated_tokens = counters("generation_tokens_total", "Tokens generated").Add({});
  Counter& steps = counters("engine_steps_total", "Engine steps").Add({});
  Counter& busy = counters("engine_busy_seconds_total", "Time inside engine steps").Add({});
  Counter& draft_time = counters("draft_seconds_total", "Time spent drafting").Add({});
  Counter& verify_time = counters("verify_seconds_total", "Time spent in the target's pass").Add({});
  Counter& clients_gone = counters("clients_gone_total", "Requests cancelled because their client went away").Add({});
  Gauge& running = gauges("num_requests_running", "Requests in the engine's batch").Add({});
  Gauge& waiting = gauges("num_requests_waiting", "Requests that wait for admission").Add({});
  Gauge& free_pages = gauges("cache_free_pages", "Free pages of the target's cache").Add({});
  Gauge& connections = gauges("connections", "Open connections").Add({});
  Gauge& replay_records = gauges("replay_records", "Requests kept for learning").Add({});
  Family<Gauge>& degraded = gauges("degraded", "1 while serving goes on without its ledger or learning, by reason");
  Gauge& learning = gauges("learning", "1 while learning is on").Add({});
  Gauge& ready = gauges("ready", "1 while /readyz says so").Add({});
  Histogram& ttft = histogram("time_to_first_token_seconds", "From submission to the first token", kLatencySeconds);
  Histogram& tpot = histogram("time_per_output_token_seconds", "Mean time per token after the first", kTokenSeconds);
  Histogram& latency = histogram("request_seconds", "From submission to the end", kLatencySeconds);
  Histogram& swap_stall =
      histogram("swap_stall_seconds", "Time a step spent on catching up after a swap", kStallSeconds);

  mutable std::mutex mutex;
  std::map<SeriesKey, Series> series;
  std::deque<SeriesKey> order;  // oldest first
  std::map<std::string, double> train_steps_seen;
  double ledger_rows_seen = 0;
  std::function<Gauges()> read_gauges;

  Series& series_for(const SeriesKey& key);
  void remove(const SeriesKey& key);
  void scrape();
};

Series& Metrics::State::series_for(const SeriesKey& key) {
  const auto found = series.find(key);
  if (found != series.end()) return found->second;
  if (order.size() >= kMaxSeries) {
    remove(order.front());
    order.pop_front();
  }
  order.push_back(key);
  const prometheus::Labels labels = {
      {"topic", key.topic}, {"draft", key.draft}, {"version", std::to_string(key.version)}};
  Series fresh{&drafts.Add(labels), &proposed.Add(labels), &accepted.Add(labels), &emitted.Add(labels)};
  return series.emplace(key, fresh).first->second;
}

void Metrics::State::remove(const SeriesKey& key) {
  const Series& old = series.at(key);
  drafts.Remove(old.drafts);
  proposed.Remove(old.proposed);
  accepted.Remove(old.accepted);
  emitted.Remove(old.emitted);
  for (Counter* counter : old.accepted_at) {
    if (counter != nullptr) accepted_at.Remove(counter);
  }
  series.erase(key);
}

void Metrics::State::scrape() {
  if (!read_gauges) return;
  const Gauges now = read_gauges();
  running.Set(now.running);
  waiting.Set(now.waiting);
  replay_records.Set(now.replay_records);
  degraded.Add({{"reason", "disk_low"}}).Set(now.disk_low ? 1 : 0);
  degraded.Add({{"reason", "ledger"}}).Set(now.ledger_refused ? 1 : 0);
  degraded.Add({{"reason", "replay"}}).Set(now.replay_refused ? 1 : 0);
  learning.Set(now.learning ? 1 : 0);
  dropped.Add({{"what", "ledger_rows"}}).Increment(std::max(0.0, now.ledger_rows_dropped - ledger_rows_seen));
  ledger_rows_seen = now.ledger_rows_dropped;
}

Metrics::Metrics() : state_(std::make_unique<State>()) {
  for (const char* what : {"observations", "ledger_rows"}) state_->dropped.Add({{"what", what}});
  for (const char* outcome : {"accepted", "rejected", "rolled_back"}) state_->published.Add({{"outcome", outcome}});
}

Metrics::~Metrics() = default;

void Metrics::on_http(const std::string& route, int status) {
  state_->http.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::on_step(const StepFigures& figures) {
  state_->steps.Increment();
  state_->busy.Increment(seconds(figures.step_us));
  state_->draft_time.Increment(seconds(figures.draft_us));
  state_->verify_time.Increment(seconds(figures.verify_us));
  state_->free_pages.Set(figures.free_pages);
  if (figures.swap_us > 0) state_->swap_stall.Observe(seconds(figures.swap_us));
}

void Metrics::on_request(const RequestSummary& summary, const SeriesKey& key) {
  const RequestFigures& figures = summary.figures;
  state_->finished.Add({{"reason", stop_reason_name(summary.reason)}}).Increment();
  state_->routed.Add({{"topic", key.topic}, {"source", topic_source_name(summary.route.source)}}).Increment();
  state_->prompt_tokens.Increment(figures.prompt_tokens);
  state_->generated_tokens.Increment(figures.output_tokens);
  if (figures.first_token_us > 0) state_->ttft.Observe(seconds(figures.first_token_us - figures.submitted_us));
  if (figures.output_tokens > 1) {
    state_->tpot.Observe(seconds(figures.finished_us - figures.first_token_us) / (figures.output_tokens - 1));
  }
  state_->latency.Observe(seconds(figures.finished_us - figures.submitted_us));
  if (key.draft.empty()) return;
  const std::lock_guard lock(state_->mutex);
  Series& series = state_->series_for(key);
  series.drafts->Increment(figures.reached_at.empty() ? 0 : figures.reached_at.front());
  series.proposed->Increment(figures.proposed);
  series.accepted->Increment(figures.accepted);
  series.emitted->Increment(figures.output_tokens);
  for (std::size_t i = 0; i < std::min(figures.accepted_at.size(), kMaxPositions); ++i) {
    if (series.accepted_at[i] == nullptr) {
      series.accepted_at[i] = &state_->accepted_at.Add({{"topic", key.topic},
                                                        {"draft", key.draft},
                                                        {"version", std::to_string(key.version)},
                                                        {"position", std::to_string(i)}});
    }
    series.accepted_at[i]->Increment(figures.accepted_at[i]);
  }
  AcceptanceCount& count = series.count;
  ++count.requests;
  count.accepted += static_cast<std::uint64_t>(figures.accepted);
  count.first_rejections += static_cast<std::uint64_t>(figures.first_rejections);
  count.proposed += static_cast<std::uint64_t>(figures.proposed);
  count.steps += static_cast<std::uint64_t>(figures.steps);
  count.emitted += static_cast<std::uint64_t>(figures.output_tokens);
}

void Metrics::on_publish(const std::string& outcome) {
  state_->published.Add({{"outcome", outcome}}).Increment();
}

void Metrics::on_train_steps(const std::string& draft, std::uint64_t steps) {
  const std::lock_guard lock(state_->mutex);
  double& seen = state_->train_steps_seen[draft];
  // A rollback sets a draft's count back; a counter only grows.
  state_->train_steps.Add({{"draft", draft}}).Increment(std::max(0.0, static_cast<double>(steps) - seen));
  seen = static_cast<double>(steps);
}

void Metrics::on_dropped(const std::string& what, std::uint64_t n) {
  state_->dropped.Add({{"what", what}}).Increment(static_cast<double>(n));
}

void Metrics::on_client_gone() {
  state_->clients_gone.Increment();
}

void Metrics::set_connections(int n) {
  state_->connections.Set(n);
}

void Metrics::set_ready(bool ready) {
  state_->ready.Set(ready ? 1 : 0);
}

void Metrics::set_gauges(std::function<Gauges()> read) {
  const std::lock_guard lock(state_->mutex);
  state_->read_gauges = std::move(read);
}

std::string Metrics::text() const {
  const std::lock_guard lock(state_->mutex);
  state_->scrape();
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

AcceptanceCount Metrics::acceptance(const std::string& draft, std::uint64_t version) const {
  const std::lock_guard lock(state_->mutex);
  AcceptanceCount sum;
  for (const auto& [key, series] : state_->series) {
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
