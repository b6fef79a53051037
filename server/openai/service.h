// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/router.h"
#include "server/http/memory_budget.h"
#include "server/http/options.h"
#include "server/http/reply.h"
#include "server/http/request_id.h"
#include "server/metrics.h"
#include "server/openai/answer.h"
#include "server/openai/answer_channel.h"
#include "server/openai/call.h"
#include "server/openai/purge.h"
#include "server/openai/served_model.h"
#include "server/openai/token_call.h"

namespace slip {

// Makes the sink of a call's next choice. Called once per choice, in order, on the thread that calls admit().
using SinkMaker = std::function<std::shared_ptr<TokenSink>()>;

// The sender of a request, and the request's id in ledger and log.
struct Caller {
  TenantId tenant;
  std::string request_id;
};

// The outcome of admit().
struct Admission {
  AnswerIdentity who;
  std::optional<Reply> refusal;
  bool must_compile = false;  // nothing was submitted: its schema has to be compiled first
};
// Whether admit() compiles a schema that is new, which may take tens of milliseconds; else it returns `must_compile`.
enum class NewSchemas : std::uint8_t { kCompile, kReturn };

// Maps API requests to engine requests and back, without sockets. Threads: any.
class Service {
 public:
  Service(const ServerOptions& options, Metrics& metrics);

  // The states are loading, ready and draining; unless ready, new work gets Error{kUnavailable}. Calling open() again,
  // before drain(), replaces the model for later requests.
  void open(std::shared_ptr<const ServedModel> model);
  void drain();
  // Replaces the options' value from now on.
  void set_expose_acceptance(ExposeAcceptance expose) { expose_acceptance_.store(expose, std::memory_order_relaxed); }
  ExposeAcceptance expose_acceptance() const { return expose_acceptance_.load(std::memory_order_relaxed); }
  // The reason of a negative /readyz; nullopt when ready.
  std::optional<std::string> not_ready() const;
  bool draining() const { return phase_.load(std::memory_order_acquire) == Phase::kDraining; }

  // Parses, routes, tokenizes and submits a call; each choice gets its own sink. After a refusal no choice is
  // generated. Errors become refusals: those of parse_request() and of submit(), kUnavailable unless ready, kNotFound
  // for another model, kTooLarge if the context does not fit. Slow, so never on an I/O thread.
  Admission admit(Endpoint endpoint, std::string_view body, const CallHeaders& headers, const Caller& caller,
                  const SinkMaker& make_sink, NewSchemas new_schemas);
  void cancel(const AnswerIdentity& answer);
  // As PurgeFunction. Error{kUnavailable}.
  void purge(PurgeOrder order, std::function<void(PurgeResult)> done) const;
  // vLLM's /tokenize and /detokenize. As slow as tokenizing, so never on an I/O thread. Errors as above.
  Reply tokenize(const TokenizeCall& call) const;
  Reply detokenize(const DetokenizeCall& call) const;

  Reply models() const;
  Reply model_named(const std::string& name) const;  // Error{kNotFound}
  Reply drafts() const;                              // reads the store's files, so not on an I/O thread
  Reply topics() const;
  std::string new_request_id() { return request_id_text(new_request_number()); }
  const ServerOptions& options() const { return options_; }
  Metrics& metrics() const { return metrics_; }
  // The memory of bodies and answers: options().max_buffered_bytes minus the part reserved for work on a body.
  MemoryBudget& memory() const { return memory_; }

  // Answers being generated or sent; drain waits until there are none.
  std::atomic<int> n_active{0};

 private:
  enum class Phase : std::uint8_t { kLoading, kReady, kDraining };
  std::shared_ptr<const ServedModel> model() const;
  Request prepare(const ServedModel& served, const CompletionCall& call, const Caller& caller, const Route& route,
                  std::vector<std::int32_t> prompt) const;
  AnswerIdentity identify(const ServedModel& served, const CompletionCall& call, const Request& first) const;

  const ServerOptions options_;
  Metrics& metrics_;
  mutable MemoryBudget memory_;
  std::atomic<ExposeAcceptance> expose_acceptance_;
  std::atomic<Phase> phase_{Phase::kLoading};
  std::atomic<std::shared_ptr<const ServedModel>> model_;
  GrammarCache grammars_;
};

}  // namespace slip
