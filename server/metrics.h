// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/step_listener.h"

namespace slip {

// Which series a request's figures count in. Versions are bounded: the oldest series of a draft make room for new ones.
struct SeriesKey {
  std::string topic, draft;
  std::uint64_t version = 0;
  auto operator<=>(const SeriesKey&) const = default;
};

// α of one draft version so far: accepted / (accepted + first_rejections), never accepted / proposed.
struct AcceptanceCount {
  std::uint64_t requests = 0, accepted = 0, first_rejections = 0, proposed = 0, steps = 0, emitted = 0;
};

// Everything /metrics shows, in Prometheus' text format. Threads: any; recording takes a short lock at most.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void on_http(const std::string& route, int status);
  void on_step(const StepFigures& figures);                              // engine thread
  void on_request(const RequestSummary& summary, const SeriesKey& key);  // engine thread
  void on_publish(const std::string& outcome);                           // "accepted", "rejected", "rolled_back"
  void on_train_steps(const std::string& draft, std::uint64_t steps);    // this run's total
  void on_dropped(const std::string& what, std::uint64_t n);             // "observations", "ledger_rows"
  void on_client_gone();
  void set_connections(int n);
  void set_ready(bool ready);

  // Read at each scrape.
  struct Gauges {
    double running = 0, waiting = 0, replay_records = 0, ledger_rows_dropped = 0;
    bool disk_low = false, ledger_refused = false, replay_refused = false;  // serving goes on without them
    bool learning = false;
  };
  void set_gauges(std::function<Gauges()> read);

  std::string text() const;
  AcceptanceCount acceptance(const std::string& draft, std::uint64_t version) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
