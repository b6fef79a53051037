// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <string>
#include <utility>

#include "common/clock.h"
#include "common/thread_memory.h"
#include "engine/contain.h"
#include "engine/request_check.h"
#include "engine/scheduler/stages.h"
#include "engine/speculative/proposal.h"

namespace slip {

namespace {

void check_options(const EngineOptions& options, const Worker& target) {
  const auto require = [](bool condition, const char* param, const std::string& message) {
    if (!condition) throw Error(ErrorCode::kInvalidArgument, message, {}, param);
  };
  require(options.k >= 0 && options.k <= kMaxProposalNodes, "k",
          "k must be between 0 and " + std::to_string(kMaxProposalNodes));
  require(options.max_running >= 1, "max_running", "max_running must be at least 1");
  require(options.tree_width >= 1 && options.tree_width <= kMaxTreeWidth, "tree_width",
          "tree_width must be between 1 and " + std::to_string(kMaxTreeWidth));
  require(options.max_waiting >= 1, "max_waiting", "max_waiting must be at least 1");
  require(options.prefill_chunk >= 1, "prefill_chunk", "prefill_chunk must be at least 1");
  require(options.prefill_ms >= 0, "prefill_ms", "prefill_ms must be at least 0");
  require(options.catch_up_chunk >= 1, "catch_up_chunk", "catch_up_chunk must be at least 1");
  require(options.prefix_cache >= 0 && options.prefix_cache <= 1, "prefix_cache",
          "prefix_cache must be between 0 and 1");
  require(target.max_rows() > options.max_running && target.max_logit_rows() > options.max_running, "max_running",
          "the target's workspace needs more rows than max_running");
}

}  // namespace

DraftModelOptions draft_model_options(const EngineOptions& options, Worker& target) {
  DraftModelOptions draft;
  draft.n_pages = options.draft_pages > 0 ? options.draft_pages : 2 * target.cache().n_pages();
  draft.max_running = options.max_running;
  draft.prompt_chunk = options.prefill_chunk;
  draft.catch_up_chunk = options.catch_up_chunk;
  draft.prefix_cache = options.prefix_cache;
  draft.prompt_lookup = options.prompt_lookup;
  return draft;
}

Engine::Engine(EngineOptions options, Target target, std::shared_ptr<const Tokenizer> tokenizer,
               kernels::ThreadPool& pool, ObservationSink* observations, std::vector<StepListener*> listeners)
    : options_(std::move(options)) {
  check_options(options_, *target.worker);
  auto proposer = std::make_unique<DraftModelProposer>(draft_model_options(options_, *target.worker),
                                                       target.worker->config(), pool);
  state_ = std::make_unique<State>(options_, std::move(target), std::move(tokenizer), std::move(proposer), observations,
                                   std::move(listeners));
}

Engine::Engine(EngineOptions options, Target target, std::shared_ptr<const Tokenizer> tokenizer,
               std::unique_ptr<Proposer> proposer, ObservationSink* observations, std::vector<StepListener*> listeners,
               CoreSharing* cores)
    : options_(std::move(options)) {
  check_options(options_, *target.worker);
  state_ = std::make_unique<State>(options_, std::move(target), std::move(tokenizer), std::move(proposer), observations,
                                   std::move(listeners));
  state_->cores = cores;
}

Engine::~Engine() {
  state_->request_queue.close();
  state_->end_all();
}

void Engine::submit(Request request) {
  RequestLimits limits;
  limits.vocab_size = state_->target->config().vocab_size;
  limits.max_positions = state_->target->config().max_positions;
  limits.cache_tokens = state_->target->cache().n_pages() * PagePool::kPageTokens;
  limits.has_tokenizer = state_->tokenizer != nullptr;
  check_request(request, limits);
  state_->request_queue.push(std::move(request));
}

void Engine::cancel(RequestId id) {
  state_->request_queue.cancel(id);
}

void Engine::close() {
  state_->request_queue.close();
}

bool Engine::step() {
  State& stages = *state_;
  const std::int64_t start_us = monotonic_us();
  stages.end_cancelled();
  stages.reserve_pages();
  stages.admit();
  if (stages.running.empty()) return false;
  const auto failure = contain([&] {
    stages.plan_next();
    stages.choose_threads();
    stages.propose();
    stages.select();
    stages.verify();
    stages.accept();
  });
  if (failure) stages.fail_step(*failure);
  stages.emit();
  stages.record(start_us);
  return true;
}

void Engine::run(const std::stop_token& stop) {
  prepare_thread_memory();
  while (!stop.stop_requested()) {
    if (!step() && !state_->request_queue.wait(stop)) break;
  }
  if (!stop.stop_requested()) return;
  state_->request_queue.close();
  state_->end_all();
}

std::int32_t Engine::n_running() const {
  return state_->n_running.load(std::memory_order_relaxed);
}

StepCurves Engine::step_curves() const {
  return state_->step_curves();
}

std::int32_t Engine::n_free_pages() const {
  return state_->n_free_pages.load(std::memory_order_relaxed);
}

std::int32_t Engine::n_waiting() const {
  return state_->request_queue.n_waiting();
}

std::int32_t Engine::n_waiting_before(const Request& request) const {
  return state_->request_queue.n_before(request.tenant, request.priority);
}

}  // namespace slip
