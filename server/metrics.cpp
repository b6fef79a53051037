// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/lock_free_inbox.h"
#include "common/log.h"
#include "common/resident_memory.h"
#include "distill/learning_labels.h"

namespace slip {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

// Capacity for requests that finish before the inbox is emptied; each HTTP answer empties it.
constexpr std::size_t kInboxItems = 4096;

constexpr std::initializer_list<double> kLatencySeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
constexpr std::initializer_list<double> kTokenSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                         0.05,   0.1,   0.25,   0.5,   1};
constexpr std::initializer_list<double> kViolations = {0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10};
constexpr std::initializer_list<double> kStallSeconds = {0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1};

// 1, 2, … kMaxProposalNodes.
Histogram::BucketBoundaries proposal_sizes() {
  Histogram::BucketBoundaries sizes(kMaxProposalNodes);
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
}

double seconds(std::int64_t us) {
  return static_cast<double>(us) / 1e6;
}

// The inbox's items, from the engine's and the learner's threads.
struct FinishedRequest {
  SeriesKey key;
  StopReason reason;
  TopicSource source;
  RequestFigures figures;
  SloTargets slo;
  std::string slo_tier;
};
struct SwapStall {
  double seconds;
};
struct Decision {
  std::string topic, kind, reason;
};
struct TrainSteps {
  std::string draft;
  std::uint64_t steps;
};
struct Dropped {
  std::string what;
  std::uint64_t n;
};
using Item = std::variant<FinishedRequest, SwapStall, Decision, TrainSteps, Dropped>;

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

  DraftSeries drafts{registry};
  Family<Counter>& http = counters("http_requests_total", "HTTP requests by route and status");
  Family<Counter>& routed =
      counters("requests_routed_total", "Generations by topic and its source: label, inferred or none");
  Family<Counter>& slo_requests = counters(
      "slo_requests_total", "Finished generations that asked for a speed, by its tier and whether they got it");
  Family<Counter>& slo_refused =
      counters("slo_refused_total",
               "Generations refused since the speed they asked for is not predicted to be had, by its tier");
  Family<Counter>& slo_tokens =
      counters("slo_goodput_tokens_total", "Tokens of generations that got the speed they asked for, by its tier");
  Family<Histogram>& slo_violation_ratio =
      prometheus::BuildHistogram()
          .Name("slipstream:slo_violation_ratio")
          .Help("Measured time / time asked for, the worst of a generation's targets, by its tier")
          .Register(registry);
  Family<Counter>& finished = counters("requests_finished_total", "Generations by the reason they ended");
  Family<Counter>& published = counters("publish_total", "Canary outcomes");
  Family<Counter>& candidates =
      counters("learning_candidates_total",
               "Candidates by topic, outcome (publish, refuse, rollback, undecided) and the reason for it");
  Family<Counter>& dropped = counters("dropped_total", "What was dropped rather than waited for");
  Family<Counter>& train_steps = counters("train_steps_total", "Optimizer steps by draft, as of its last decision");
  Counter& prompt_tokens = counters("prompt_tokens_total", "Tokens of prompts").Add({});
  Counter& prefix_hits = counters("prefix_cache_hits_total", "Of those, tokens the prefix cache held already").Add({});
  Counter& generated_tokens = counters("generation_tokens_total", "Tokens generated").Add({});
  Counter& preemptions =
      counters("num_preemptions_total", "Answers that lost their cache pages to others and went on later").Add({});
  Counter& steps = counters("engine_steps_total", "Engine steps").Add({});
  Counter& busy = counters("engine_busy_seconds_total", "Time inside engine steps").Add({});
  Counter& plan_time = counters("plan_seconds_total", "Time spent planning steps").Add({});
  Counter& draft_time = counters("draft_seconds_total", "Time spent drafting").Add({});
  Counter& verify_time = counters("verify_seconds_total", "Time spent in the target's pass").Add({});
  Counter& clients_gone = counters("clients_gone_total", "Requests cancelled because their client went away").Add({});
  Gauge& running = gauges("num_requests_running", "Requests in the engine's batch").Add({});
  Gauge& waiting = gauges("num_requests_waiting", "Requests that wait for admission").Add({});
  Gauge& free_pages = gauges("cache_free_pages", "Free pages of the target's cache").Add({});
  Gauge& connections = gauges("connections", "Open connections").Add({});
  Gauge& buffered =
      gauges("buffered_bytes", "Request bodies in work and unsent answers; server.max_buffered_bytes bounds them")
          .Add({});
  Gauge& replay_records = gauges("replay_records", "Requests kept for learning").Add({});
  Family<Gauge>& degraded = gauges("degraded", "1 while serving goes on without its ledger or learning, by reason");
  Gauge& learning = gauges("learning", "1 while learning is on").Add({});
  Gauge& ready = gauges("ready", "1 while /readyz says so").Add({});
  Histogram& ttft = histogram("time_to_first_token_seconds", "From submission to the first token", kLatencySeconds);
  Histogram& tpot = histogram("time_per_output_token_seconds", "Mean time per token after the first", kTokenSeconds);
  Histogram& latency = histogram("request_seconds", "From submission to the end", kLatencySeconds);
  Histogram& tree_nodes =
      histogram("spec_decode_tree_nodes", "Tokens of a proposal, all choices included", proposal_sizes());
  Histogram& swap_stall =
      histogram("swap_stall_seconds", "Time a step spent on catching up after a swap", kStallSeconds);

  LockFreeInbox<Item> inbox{kInboxItems};
  std::atomic<std::uint64_t> items_lost{0};
  std::atomic<const LearningFigures*> newest_learning{nullptr};  // owned by the thread that takes it out

  std::mutex mutex;  // guards all below, and families that grow; never taken by the engine or the learner
  std::map<std::string, double> train_steps_seen;
  std::uint64_t items_lost_seen = 0;
  double ledger_rows_seen = 0, log_lines_seen = 0;
  std::unique_ptr<const LearningFigures> learning_shown;
  MemoryParts memory;
  std::function<Gauges()> read_gauges;

  ~State() { delete newest_learning.load(); }
  void leave(Item&& item) {
    if (!inbox.push(std::move(item))) items_lost.fetch_add(1, std::memory_order_relaxed);
  }
  void drain();
  void scrape();
  void take(const FinishedRequest& request);
  void add_proposals(const RequestFigures& figures);
  void take(const SwapStall& stall) { swap_stall.Observe(stall.seconds); }
  void take(const Decision& decision);
  void take(const TrainSteps& trained);
  void take(const Dropped& lost) { dropped.Add({{"what", lost.what}}).Increment(static_cast<double>(lost.n)); }
};

void Metrics::State::drain() {
  for (const Item& item : inbox.take_all()) {
    try {
      std::visit([this](const auto& one) { take(one); }, item);
    } catch (const std::bad_alloc&) {
      items_lost.fetch_add(1, std::memory_order_relaxed);
    }
  }
  const std::uint64_t lost = items_lost.load(std::memory_order_relaxed);
  dropped.Add({{"what", "figures"}}).Increment(static_cast<double>(lost - items_lost_seen));
  items_lost_seen = lost;
}

void Metrics::State::take(const FinishedRequest& request) {
  const RequestFigures& figures = request.figures;
  finished.Add({{"reason", stop_reason_name(request.reason)}}).Increment();
  routed.Add({{"topic", request.key.topic}, {"source", topic_source_name(request.source)}}).Increment();
  prompt_tokens.Increment(figures.prompt_tokens);
  prefix_hits.Increment(figures.cached_tokens);
  generated_tokens.Increment(figures.output_tokens);
  if (request.slo.any() && request.reason != StopReason::kCancelled && request.reason != StopReason::kFailed) {
    const bool met = meets(request.slo, figures);
    slo_requests.Add({{"tier", request.slo_tier}, {"met", met ? "true" : "false"}}).Increment();
    if (met) slo_tokens.Add({{"tier", request.slo_tier}}).Increment(figures.output_tokens);
    slo_violation_ratio.Add({{"tier", request.slo_tier}}, kViolations).Observe(slo_violation(request.slo, figures));
  }
  if (figures.first_token_us > 0) ttft.Observe(measured_ttft_ms(figures) / 1e3);
  if (figures.output_tokens > 1) tpot.Observe(measured_tpot_ms(figures) / 1e3);
  latency.Observe(seconds(figures.finished_us - figures.submitted_us));
  if (request.key.draft.empty()) return;
  drafts.add(request.key, figures);
  add_proposals(figures);
}

void Metrics::State::add_proposals(const RequestFigures& figures) {
  std::vector<double> by_size(figures.sized_proposals.begin(), figures.sized_proposals.end());
  by_size.push_back(0);  // none is larger
  tree_nodes.ObserveMultiple(by_size, figures.proposed);
}

void Metrics::State::take(const Decision& decision) {
  candidates.Add({{"topic", decision.topic}, {"outcome", decision.kind}, {"reason", decision_reason(decision.reason)}})
      .Increment();
  if (decision.kind == "publish") published.Add({{"outcome", "accepted"}}).Increment();
  if (decision.kind == "refuse") published.Add({{"outcome", "rejected"}}).Increment();
  if (decision.kind == "rollback") published.Add({{"outcome", "rolled_back"}}).Increment();
}

void Metrics::State::take(const TrainSteps& trained) {
  double& seen = train_steps_seen[trained.draft];
  // A rollback lowers a draft's count, but a counter may only grow.
  train_steps.Add({{"draft", trained.draft}}).Increment(std::max(0.0, static_cast<double>(trained.steps) - seen));
  seen = static_cast<double>(trained.steps);
}

void Metrics::State::scrape() {
  drain();
  const auto log_lines = static_cast<double>(log_lines_dropped());
  dropped.Add({{"what", "log_lines"}}).Increment(log_lines - std::exchange(log_lines_seen, log_lines));
  if (const auto* newest = newest_learning.exchange(nullptr)) learning_shown.reset(newest);
  if (!read_gauges) return;
  Gauges now = read_gauges();
  running.Set(now.running);
  waiting.Set(now.waiting);
  free_pages.Set(now.free_pages);
  replay_records.Set(now.replay_records);
  degraded.Add({{"reason", "disk_low"}}).Set(now.disk_low ? 1 : 0);
  degraded.Add({{"reason", "data_directory"}}).Set(now.data_directory_gone ? 1 : 0);
  degraded.Add({{"reason", "ledger"}}).Set(now.ledger_refused ? 1 : 0);
  degraded.Add({{"reason", "replay"}}).Set(now.replay_refused ? 1 : 0);
  degraded.Add({{"reason", "learning"}}).Set(now.learning_fails ? 1 : 0);
  learning.Set(now.learning ? 1 : 0);
  dropped.Add({{"what", "ledger_rows"}}).Increment(std::max(0.0, now.ledger_rows_dropped - ledger_rows_seen));
  ledger_rows_seen = now.ledger_rows_dropped;
  memory = std::move(now.memory);
}

Metrics::Metrics() : state_(std::make_unique<State>()) {
  for (const char* what : {"observations", "ledger_rows", "figures"}) state_->dropped.Add({{"what", what}});
  for (const char* outcome : {"accepted", "rejected", "rolled_back"}) state_->published.Add({{"outcome", outcome}});
}

Metrics::~Metrics() = default;

void Metrics::on_http(const std::string& route, int status) {
  state_->http.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
  // Empties the inbox if no scrape does. A scrape in progress empties it itself.
  const std::unique_lock lock(state_->mutex, std::try_to_lock);
  if (lock.owns_lock()) state_->drain();
}

void Metrics::on_step(const StepFigures& figures) {
  state_->steps.Increment();
  state_->preemptions.Increment(figures.n_preempted);
  state_->busy.Increment(seconds(figures.step_us));
  state_->plan_time.Increment(seconds(figures.plan_us));
  state_->draft_time.Increment(seconds(figures.draft_us));
  state_->verify_time.Increment(seconds(figures.verify_us));
  if (figures.swap_us > 0) state_->leave(SwapStall{seconds(figures.swap_us)});
}

void Metrics::on_request(const RequestSummary& summary, const SeriesKey& key) {
  state_->leave(
      FinishedRequest{key, summary.reason, summary.route.source, summary.figures, summary.slo, summary.slo_tier});
}

void Metrics::on_decision(const std::string& topic, const std::string& kind, const std::string& reason) {
  state_->leave(Decision{topic, kind, reason});
}

void Metrics::on_train_steps(const std::string& draft, std::uint64_t steps) {
  state_->leave(TrainSteps{draft, steps});
}

void Metrics::on_dropped(const std::string& what, std::uint64_t n) {
  state_->leave(Dropped{what, n});
}

void Metrics::on_learning(const LearningFigures& figures) {
  delete state_->newest_learning.exchange(new LearningFigures(figures));
}

void Metrics::on_slo_refused(const std::string& tier) {
  state_->slo_refused.Add({{"tier", tier}}).Increment();
}

void Metrics::on_client_gone() {
  state_->clients_gone.Increment();
}

// Not set from a count: of two threads that have counted, the one with the older count may be the last to set it.
void Metrics::on_connection_opened() {
  state_->connections.Increment();
}

void Metrics::on_connection_closed() {
  state_->connections.Decrement();
}

void Metrics::set_ready(bool ready) {
  state_->ready.Set(ready ? 1 : 0);
}

void Metrics::set_buffered_bytes(std::size_t bytes) {
  state_->buffered.Set(static_cast<double>(bytes));
}

void Metrics::set_gauges(std::function<Gauges()> read) {
  const std::lock_guard lock(state_->mutex);
  state_->read_gauges = std::move(read);
}

std::string Metrics::text() const {
  const std::lock_guard lock(state_->mutex);
  state_->scrape();
  auto families = state_->registry.Collect();
  const auto append = [&families](std::vector<prometheus::MetricFamily> more) {
    std::move(more.begin(), more.end(), std::back_inserter(families));
  };
  MemoryParts memory = state_->memory;
  if (const LearningFigures* shown = state_->learning_shown.get()) {
    append(learning_families(*shown, wall_us()));
    const MemoryParts learned = learning_memory(*shown);
    memory.insert(memory.end(), learned.begin(), learned.end());
  }
  append(memory_families(memory, resident_memory_bytes()));
  std::ostringstream text;
  text.exceptions(std::ios::badbit);  // otherwise a stream without memory is silently cut off
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

AcceptanceCount Metrics::acceptance(const std::string& draft, std::uint64_t version) const {
  const std::lock_guard lock(state_->mutex);
  state_->drain();
  return state_->drafts.acceptance(draft, version);
}

}  // namespace slip
