// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "distill/learning_figures.h"
#include "engine/step_listener.h"
#include "server/draft_series.h"
#include "server/learning_metrics.h"

namespace slip {

// Everything /metrics shows, in Prometheus' text format. Threads: any.
//
// The engine's thread and the learner's never take a lock here, and no lock is held while the learner could lose the
// processor: what they record goes into a bounded lock-free inbox, or into atomics. Whoever scrapes or answers HTTP
// empties the inbox. (A prometheus-cpp counter or gauge is an atomic; its Family::Add and its histograms take a mutex.)
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void on_http(const std::string& route, int status);
  void on_step(const StepFigures& figures);                              // engine thread; never waits
  void on_request(const RequestSummary& summary, const SeriesKey& key);  // engine thread; never waits
  // `kind` as in CanaryDecision, `reason` its verdict's; learner thread, never waits, as the next three.
  void on_decision(const std::string& topic, const std::string& kind, const std::string& reason);
  void on_train_steps(const std::string& draft, std::uint64_t steps);  // this run's total
  void on_dropped(const std::string& what, std::uint64_t n);           // "observations"
  void on_learning(const LearningFigures& figures);                    // the latest replaces the one before
  void on_client_gone();
  void set_connections(int n);
  void set_ready(bool ready);
  void set_buffered_bytes(std::size_t bytes);  // what requests hold of server.max_buffered_bytes

  // Read at each scrape.
  struct Gauges {
    double running = 0, waiting = 0, free_pages = 0, replay_records = 0, ledger_rows_dropped = 0;
    // Serving goes on without them.
    bool disk_low = false, data_directory_gone = false, ledger_refused = false, replay_refused = false;
    bool learning_fails = false;
    bool learning = false;
    MemoryParts memory;  // what holds memory besides learning, in bytes
  };
  void set_gauges(std::function<Gauges()> read);

  std::string text() const;  // waits for another scrape
  AcceptanceCount acceptance(const std::string& draft, std::uint64_t version) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
