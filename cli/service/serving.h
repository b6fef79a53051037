// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cli/config/serve_config.h"
#include "engine/step_listener.h"
#include "server/openai/service.h"

namespace slip::cli {

// The whole service below its sockets: data directory, ledger, drafts, learner and engine with its thread, built in
// this order and ended in the reverse one.
class Serving {
 public:
  // Loads everything and starts the engine and the learner. `metrics` and `quotas`, which hears what the engine did,
  // outlive it. Errors: whatever a wrong model, draft or data directory is.
  Serving(const ServeConfig& config, Metrics& metrics, StepListener& quotas);
  ~Serving();  // drain() without patience

  // What is served; reads the chat template again. Errors: those of a template that was asked for.
  std::shared_ptr<const ServedModel> model() const;
  std::vector<std::string> start_up_lines() const;

  // No new work; waits for what was accepted, at most `patience`, then cancels the rest.
  void drain(std::chrono::milliseconds patience);
  // What a reload changes, each at once; one thread at a time. Without learning at the start drafts stay as they are;
  // else set_learning() is for them and for the router. set_topics() as Router's.
  bool started_with_learning() const;
  void set_learning(bool on);
  void set_topics(TopicTable topics);
  void set_min_free(std::uint64_t bytes);
  // Removes what is kept of requests, and waits for it. Any thread.
  PurgeResult purge(PurgeOrder order);
  // Saves what was learned and recorded. After drain().
  void save();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip::cli
