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

// All metrics of /metrics, in Prometheus' text format. Threads: any.
//
// The engine's and the learner's threads never take a lock here, and no lock is held while the learner may lose its
// CPU. They record into a bounded lock-free inbox or into atomics; scrapes and HTTP answers empty the inbox. (A
// prometheus-cpp counter or gauge is an atomic; its Family::Add and its histograms take a mutex.)
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void on_http(const std::string& route, int status);
  void on_step(const StepFigures& figures);                              // engine thread; never waits
  void on_request(const RequestSummary& summary, const SeriesKey& key);  // engine thread; never waits
  // `kind` as in CanaryDecision, `reason` from its result. Learner thread, never waits; so do the next three.
  void on_decision(const std::string& topic, const std::string& kind, const std::string& reason);
  void on_train_steps(const std::string& draft, std::uint64_t steps);  // total of this run
  void on_dropped(const std::string& what, std::uint64_t n);           // "observations"
  void on_learning(const LearningFigures& figures);                    // replaces the previous figures
  void on_client_gone();
  void on_slo_refused(const std::string& tier);  // empty: a speed of the client's own
  void on_connection_opened();
  void on_connection_closed();
  void set_ready(bool ready);
  void set_buffered_bytes(std::size_t bytes);  // of server.max_buffered_bytes, held by requests

  // Values read at each scrape.
  struct Gauges {
    double running = 0, waiting = 0, free_pages = 0, replay_records = 0, ledger_rows_dropped = 0;
    // Conditions under which serving goes on.
    bool disk_low = false, data_directory_gone = false, ledger_refused = false, replay_refused = false;
    bool learning_fails = false;
    bool learning = false;
    MemoryParts memory;  // memory in bytes, by part, besides learning's
  };
  void set_gauges(std::function<Gauges()> read);

  std::string text() const;  // waits for a concurrent scrape
  AcceptanceCount acceptance(const std::string& draft, std::uint64_t version) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
