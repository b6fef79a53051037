// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/config/serve_config.h"
#include "engine/step_listener.h"
#include "server/http/api_keys.h"
#include "server/openai/service.h"

namespace slip::cli {

// The service below its sockets: data directory, ledger, drafts, learner, and engine with its thread. Built in this
// order, destroyed in reverse. Threads: one owner, unless a function says otherwise.
class Serving {
 public:
  // Loads everything and starts the engine and the learner. `metrics` and `quotas` (a listener of engine steps) must
  // outlive it. Errors: those of an invalid model, draft or data directory.
  Serving(const ServeConfig& config, Metrics& metrics, StepListener& quotas);
  ~Serving();  // drain() without waiting

  // The model to serve; reads the chat template again. Errors: those of a configured template.
  std::shared_ptr<const ServedModel> model() const;
  std::vector<std::string> start_up_lines() const;

  // Refuses new work; waits for accepted work for at most `patience`, then cancels the rest.
  void drain(std::chrono::milliseconds patience);
  // The settings that a reload changes, effective at once; one thread at a time. If learning was off at the start,
  // drafts never change; else set_learning() controls drafts and router. set_topics() as Router's.
  bool started_with_learning() const;
  void set_learning(bool on);
  void set_topics(TopicTable topics);
  void set_min_free(std::uint64_t bytes);
  // Records the names of the keys, so that a purge finds what they sent after they are gone. Any thread.
  void remember_names(const ApiKeys& keys);
  // As Ledger's. Any thread.
  std::vector<TenantId> tenants_named(const std::string& name);
  // Removes stored data of requests, and waits for it. Any thread.
  PurgeResult purge(PurgeOrder order);
  // Saves the learned and recorded state. Call after drain().
  void save();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip::cli
