// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "engine/request.h"
#include "engine/speculative/live_draft.h"
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
#include "server/openai/token_call.h"
#include "text/tokenizer.h"

namespace slip {

// The engine's two functions that serving calls. Both may be called from any thread.
struct EngineDoor {
  std::function<void(Request)> submit;
  std::function<void(RequestId)> cancel;
};

// What is served once it is loaded. Immutable but for what the router learns; the engine behind the door outlives the
// service's last request.
struct ServedModel {
  std::vector<std::string> names;  // the first is canonical
  std::string system_fingerprint;  // of what answers depend on: build and target, never a draft
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: no chat completions
  std::int32_t max_positions = 0;
  std::vector<std::int32_t> end_ids;
  std::shared_ptr<Router> router;                       // never null; learns while it serves, behind a lock of its own
  std::vector<std::shared_ptr<LiveDraft>> live_drafts;  // [topics.size()]; empty: plain decoding
  bool speculates = true;                               // false: drafts are there, but k is 0
  const DraftStore* drafts = nullptr;                   // null: no drafts to list
  EngineDoor engine;
  PurgeDoor purge;  // empty: nothing is kept; clients read its errors
};

// Where the next choice of a call goes: called once for each, in order, on the thread that calls generate().
using SinkMaker = std::function<std::shared_ptr<TokenSink>()>;

// On whose behalf, and under which name in ledger and log, a request is made.
struct Caller {
  TenantId tenant;
  std::string request_id;
};

// Requests in, answers out, in the API's terms: no socket below this line. Threads: any.
class Service {
 public:
  Service(const ServerOptions& options, Metrics& metrics);

  // Loading → ready → draining; not ready means Error{kUnavailable} for new work. open() again, before drain(),
  // replaces what is served for requests to come.
  void open(std::shared_ptr<const ServedModel> model);
  void drain();
  // Other than the options' from now on.
  void set_expose_acceptance(ExposeAcceptance expose) { expose_acceptance_.store(expose, std::memory_order_relaxed); }
  ExposeAcceptance expose_acceptance() const { return expose_acceptance_.load(std::memory_order_relaxed); }
  // Why /readyz says no; nullopt when ready.
  std::optional<std::string> not_ready() const;
  bool draining() const { return phase_.load(std::memory_order_acquire) == Phase::kDraining; }

  // Tokenises, compiles a schema, routes and submits; each choice arrives at a sink of its own. Takes as long as that
  // does: never on an I/O thread. Errors: what submit() throws, and then none of the choices is made; kNotFound for
  // another model; kTooLarge for a context that does not fit.
  AnswerIdentity generate(CompletionCall call, const Caller& caller, const SinkMaker& make_sink);
  void cancel(const AnswerIdentity& answer);
  // As PurgeDoor. Error{kUnavailable}.
  void purge(PurgeOrder order, std::function<void(PurgeResult)> done) const;
  // vLLM's /tokenize and /detokenize. They take as long as tokenising does: never on an I/O thread. Errors as above.
  Reply tokenize(const TokenizeCall& call) const;
  Reply detokenize(const DetokenizeCall& call) const;

  Reply models() const;
  Reply model_named(const std::string& name) const;  // Error{kNotFound}
  Reply drafts() const;                              // reads the store's files: not on an I/O thread
  Reply topics() const;
  std::string new_request_id() { return request_id_text(next_id_.fetch_add(1, std::memory_order_relaxed)); }
  const ServerOptions& options() const { return options_; }
  Metrics& metrics() const { return metrics_; }
  // What bodies and answers may hold together: options().max_buffered_bytes less what is kept for the work on a body.
  MemoryBudget& memory() const { return memory_; }

  // Answers that are being made or sent; drain waits for none.
  std::atomic<int> n_active{0};

 private:
  enum class Phase : std::uint8_t { kLoading, kReady, kDraining };
  std::shared_ptr<const ServedModel> model() const;
  Request prepare(const ServedModel& served, const CompletionCall& call, const Route& route,
                  std::vector<std::int32_t> prompt) const;
  AnswerIdentity identify(const ServedModel& served, const CompletionCall& call, const Request& first) const;
  void submit_choices(const ServedModel& served, const Request& prepared, std::int32_t n, const SinkMaker& make_sink,
                      AnswerIdentity& who);

  const ServerOptions options_;
  Metrics& metrics_;
  mutable MemoryBudget memory_;
  std::atomic<ExposeAcceptance> expose_acceptance_;
  std::atomic<Phase> phase_{Phase::kLoading};
  std::atomic<std::shared_ptr<const ServedModel>> model_;
  std::atomic<std::uint64_t> next_id_;
  GrammarCache grammars_;
};

// The id clients see for a request; unique across restarts, as request ids are.
std::string http_id(Endpoint endpoint, RequestId id);

}  // namespace slip
