// SPDX-License-Identifier: Apache-2.0
#include "cli/service/serving.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "checkpoints/data_directory_lock.h"
#include "checkpoints/model_config.h"
#include "checkpoints/store_folder.h"
#include "cli/load_model.h"
#include "cli/process/address_room.h"
#include "cli/process/usable_cores.h"
#include "cli/process/usable_memory.h"
#include "cli/service/draft_registry.h"
#include "cli/service/part_options.h"
#include "cli/service/purger.h"
#include "cli/service/recorder.h"
#include "cli/service/refill_past_answers.h"
#include "cli/step_times_file.h"
#include "cli/target_worker.h"
#include "cli/version.h"
#include "common/disk_space.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/thread_name.h"
#include "engine/contain.h"
#include "engine/core_sharing.h"
#include "engine/kv_cache/page_pool.h"
#include "engine/models/finite_logits.h"
#include "engine/speed_forecast.h"
#include "kernels/cuda/stream_queue.h"
#include "kernels/matmul.h"
#include "kernels/thread_pool.h"
#include "router/router_saver.h"
#include "router/router_state_file.h"
#include "router/topic_seeds.h"

namespace slip::cli {
namespace {

constexpr const char* kRouterFile = "router.state";
constexpr const char* kStepTimesFile = "step_times.json";
constexpr std::chrono::milliseconds kRouterSaveInterval{1000};  // the most that promise 5 allows
constexpr const char* kNoDraftModel = "prompt_lookup";  // what proposes, in ledger and metrics, without a draft model
static_assert(is_reserved_topic_name(kNoDraftModel), "a topic's figures would be added to it");

// A thread that finds no addresses for its stack and its allocator's first pages ends the process.
void require_room_for_threads() {
  constexpr std::uint64_t kLeastBytes = std::uint64_t{128} << 20;
  if (address_room() >= kLeastBytes) return;
  throw Error(ErrorCode::kTooLarge, "the limit of memory leaves fewer than 128 MiB for the service's threads",
              "raise the limit (ulimit -v, ulimit -d), or lower model.cache_tokens", "model.cache_tokens");
}

// If the engine leaves no CPU free, the learner competes for its share.
LearnerPlacement learner_placement(const CorePlan& plan) {
  return {.cpus = plan.learner_cpus, .idle_priority = !plan.learner_cpus.empty()};
}

// Of all drafts. Reads every meta.json, and warns of each that it cannot read.
std::vector<DraftMeta> all_versions(const DraftStore& store) {
  std::vector<DraftMeta> all;
  for (const auto& draft : store.drafts()) {
    auto versions = store.versions(draft);
    std::move(versions.begin(), versions.end(), std::back_inserter(all));
  }
  return all;
}

// Adds versions that a crash kept out of the ledger, after they were published; rows of the same weights stay. Warns of
// versions that were deleted.
void reconcile(const DraftStore& store, std::span<const DraftMeta> versions, Ledger& ledger) {
  std::vector<DraftVersionRow> rows;
  std::transform(versions.begin(), versions.end(), std::back_inserter(rows), version_row);
  for (const auto& [draft, version] : ledger.reconcile(rows)) {
    log_warn(
        "draft " + draft + ": version " + std::to_string(version) + ", which the ledger knows, is missing in " +
        store.root().string() +
        ": an older version or the base draft serves instead, and training goes on from it; if it was not deleted on "
        "purpose, stop the service and restore that folder from a backup");
  }
}

// Whether one of them was trained on answers that replay should still hold.
bool any_trained_since(std::span<const DraftMeta> versions, std::int64_t since_us) {
  return std::any_of(versions.begin(), versions.end(), [since_us](const DraftMeta& meta) {
    return meta.trained_requests > 0 && meta.created_us > since_us;
  });
}

// Host memory of the serving parts. Topics share the base draft's weights until they have their own.
MemoryParts serving_memory(const TargetModel& target, std::uint64_t cache_bytes, const DraftRegistry& registry) {
  std::set<std::shared_ptr<const ModelWeights>> drafts;
  if (registry.base) drafts.insert(registry.base->weights);
  for (const auto& live_draft : registry.live_drafts) drafts.insert(live_draft->get()->weights);
  std::uint64_t draft_bytes = 0;
  for (const auto& weights : drafts) draft_bytes += weights->bytes();
  return {{"target_weights", target.weights->bytes()}, {"target_cache", cache_bytes}, {"draft_weights", draft_bytes}};
}

const char* dtype_name(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? "float32" : "bfloat16";
}

// Where the cache holds less than the model's context, requests are bounded by it.
std::string context_text(std::int32_t served, std::int32_t of_model) {
  if (served == of_model) return std::to_string(served);
  return std::to_string(served) + " of " + std::to_string(of_model) + " (all that the cache holds)";
}

// "on", "off", or the reason why it is off although configured.
std::string learning_text(bool is_on, const ServeConfig& config, const DraftRegistry& registry) {
  if (is_on) return "on";
  const std::string key = registry.base ? registry.base->weights->config.beyond_plain_llama() : "";
  if (!config.learning || key.empty()) return "off";
  return "off (by \"" + key +
         "\" in its config.json the draft is more than a plain Llama: it serves, but cannot learn)";
}

// Without learning the router does not learn either.
bool router_learns(const ServeConfig& config, bool learning) {
  return config.router.learn && learning;
}

std::shared_ptr<Router> make_router(const ServeConfig& config, const TopicTable& topics) {
  RouterOptions options = config.router;
  options.learn = router_learns(config, config.learning);
  return std::make_shared<Router>(topics, options, load_or_seed(config.data_dir / kRouterFile, topics));
}

}  // namespace

// Members in construction order: each is declared after those it uses.
struct Serving::State {
  State(const ServeConfig& given, Metrics& given_metrics, StepListener& given_quotas)
      : config(given),
        metrics(given_metrics),
        quotas(given_quotas),
        lock(config.data_dir),
        disk(std::make_shared<DiskSpace>(config.data_dir, config.min_free_bytes, DiskSpace::ReadFree{},
                                         [this] { return lock.in_place(); })),
        device(open_target_device(config.device)),
        target(load_target(config.target, config.dtype)),
        fingerprint(system_fingerprint(config.target, config.dtype, config.device)),
        topics(config.topics),
        router(make_router(config, topics)),
        store(private_folder(config.data_dir / "drafts"), config.retention),
        ledger(ledger_options(config, disk)) {
    const bool drafting = !config.draft.empty();
    if (drafting) {
      const DraftTarget drafted{folder_name(config.target), config.target, config.dtype, target, draft_packing(device)};
      registry = open_draft_registry(store, config.draft, drafted, topics);
    } else {
      refuse_another_target(store, config.target);
    }
    const std::vector<DraftMeta> versions = all_versions(store);
    reconcile(store, versions, ledger);
    if (router_learns(config, config.learning) && ledger.any_labelled() &&
        !std::filesystem::exists(config.data_dir / kRouterFile)) {
      log_warn((config.data_dir / kRouterFile).string() +
               " is missing, though requests named their topics: unless learning was off then, what the router learned "
               "from them is lost");
    }
    recorder.emplace(names(), ledger, metrics);
    pool.emplace(engine_threads(config), engine_pinning(config));
    router_saver.emplace(*router, config.data_dir / kRouterFile, kRouterSaveInterval, [this] { return disk->gone(); });
    if (config.learning && config.engine.prompt_lookup && config.past_answers_bytes > 0) {
      past_answers = std::make_shared<PastAnswersTable>(config.past_answers_bytes);
    }
    if (drafting && config.learning && registry.base->weights->config.beyond_plain_llama().empty()) {
      start_learning(versions);
    }
    start_engine();
    purger.emplace(ledger, [this](const PurgeScope& scope) {
      if (past_answers) past_answers->forget(scope.tenant);
      return learner ? learner->purge(scope) : purge_resting_replay(config.data_dir / "replay", scope);
    });
  }

  RecordNames names() const {
    RecordNames names;
    for (std::uint32_t i = 0; i < topics.size(); ++i) names.topics.push_back(topics[{i}].name);
    if (engine_options(config).k == 0) return names;
    for (const auto& live_draft : registry.live_drafts) names.drafts.push_back(live_draft->name());
    if (registry.live_drafts.empty()) names.drafts.assign(topics.size(), kNoDraftModel);
    return names;
  }

  // The large parts, with the cache full.
  std::string memory_line() const {
    const std::uint64_t weights = target.weights->bytes(), cache = device == nullptr ? cache_bytes : 0;
    const std::uint64_t draft = registry.base ? registry.base->weights->bytes() : 0;
    std::string line = "memory: weights " + memory_text(weights) + " packed for " +
                       kernels::isa_class_name(kernels::isa_class()) + " in " +
                       std::to_string(target.weights->load_us / 1000) + " ms";
    if (cache > 0) line += " + cache " + memory_text(cache);
    if (draft > 0) line += " + base draft " + memory_text(draft);
    line += " = " + memory_text(weights + cache + draft) + " of " + memory_text(usable_memory_bytes());
    return learner ? line + "; trainers hold up to " + memory_text(config.learner.memory_bytes) + " more" : line;
  }

  // `versions` are all of the store.
  void start_learning(std::span<const DraftMeta> versions) {
    check_training_device(config.learner.trainer.device);
    replay = std::make_unique<ReplayBuffer>(replay_options(config));
    replay_at_start = replay->stats();
    if (replay_at_start.records == 0 && any_trained_since(versions, wall_us() - config.replay.ttl_us)) {
      log_warn((config.data_dir / "replay").string() +
               " holds no records, though drafts were trained on some lately: unless they were purged, they are lost");
    }
    if (past_answers) refill_past_answers(*replay, topics, target.weights->config.vocab_size, wall_us(), *past_answers);
    const CorePlan plan = plan_cores(kernels::allowed_cpus(), pool->cpus(), pool->n_threads(), config.learner.cores);
    cores.emplace(*pool, plan.leased_threads);
    governor = make_governor(config, *cores);
    LearnerOptions options = learner_options(config, disk);
    options.placement = learner_placement(plan);
    options.pack = draft_packing(device);
    options.answer_again = [this](Request request) {  // for a prompt that the engine answered: so the engine exists
      request.end_ids = target.weights->config.eos_ids;
      engine->submit(std::move(request));
    };
    learner = std::make_unique<Learner>(std::move(options), topics, registry.live_drafts, registry.base, store, *replay,
                                        *governor, *recorder);
    learner->start();
  }

  // The times of steps depend on the shapes of the models, not on their weights.
  StepTimesOrigin step_times_origin() const {
    const auto shape = [](const ModelWeights& weights) { return sha256_of(to_config_json(weights.config)); };
    StepTimesOrigin origin = {{"target", shape(*target.weights)},
                              {"draft", registry.base ? shape(*registry.base->weights) : "none"},
                              {"dtype", dtype_name(config.dtype)},
                              {"processor", processor_name() + ", " + kernels::isa_class_name(kernels::isa_class())},
                              {"number of threads", std::to_string(pool->n_threads())},
                              {"number of leased threads", std::to_string(cores ? cores->leased_threads() : 0)}};
    if (device != nullptr) origin["device"] = kernels::cuda::describe_device();
    return origin;
  }

  // A failed write costs the next start its first measurements, so it is no failed stop. REQUIRES: the engine's thread
  // has ended.
  void save_step_times() const {
    if (!engine->options().adaptive_k || disk->gone()) return;
    const auto failure = contain([&] {
      const StepCurves measured = engine->step_curves();
      if (measured.unleased) write_step_times(config.data_dir / kStepTimesFile, {step_times_origin(), measured});
    });
    if (failure) log_parts(LogLevel::kWarn, {"step times are not stored: ", failure->what()});
  }

  void start_engine() {
    Target running = make_target(config, device, target.weights, *pool);
    require_finite_logits(*running.worker, config.target.string());
    require_room_for_threads();
    const std::int32_t n_pages = running.worker->cache().n_pages();
    cache_bytes = static_cast<std::uint64_t>(n_pages) * PagePool::page_bytes(target.weights->config, config.dtype);
    const std::int64_t cache_tokens = std::int64_t{n_pages} * PagePool::kPageTokens;
    max_positions =
        static_cast<std::int32_t>(std::min<std::int64_t>(target.weights->config.max_positions, cache_tokens));
    EngineOptions options = engine_options(config);
    if (options.adaptive_k) {  // fixed lengths would not keep them up to date
      options.step_curves = load_step_times(config.data_dir / kStepTimesFile, step_times_origin());
    }
    std::vector<StepListener*> listeners = {&*recorder, &quotas};
    if (config.slo_admission == SloAdmission::kRefuse) listeners.push_back(&forecast.emplace(options.max_running));
    if (governor) listeners.push_back(governor.get());
    auto proposer = make_proposer(device, options, *running.worker, *pool);
    engine.emplace(options, std::move(running), target.tokenizer, std::move(proposer),
                   learner ? &learner->observations() : nullptr, std::move(listeners), cores ? &*cores : nullptr);
    std::promise<void> ended;
    engine_ended = ended.get_future();
    engine_thread = std::jthread([this, done = std::move(ended)](const std::stop_token& stop) mutable {
      name_thread("engine");
      pool->pin_caller();  // this thread starts no other threads
      engine->run(stop);
      done.set_value();
    });
  }

  // As EngineCalls. REQUIRES: slo.admission refuses.
  void check_speed(const Request& request, std::int32_t n_before) {
    if (!request.slo.any()) return;
    const SpeedForecast::Load load{engine->n_running(), engine->n_waiting() + n_before,
                                   engine->n_waiting_before(request) + n_before};
    const SpeedForecast::Lengths lengths{static_cast<std::int32_t>(request.prompt.size()), request.max_tokens};
    try {
      require_attainable(request.slo, forecast->predict(load, lengths));
    } catch (const Error&) {
      metrics.on_slo_refused(request.slo_tier);
      throw;
    }
  }

  const ServeConfig config;
  Metrics& metrics;
  StepListener& quotas;
  DataDirectoryLock lock;
  const std::shared_ptr<DiskSpace> disk;
  const TargetDevice device;  // null: the CPU
  TargetModel target;
  const std::string fingerprint;
  TopicTable topics;
  std::shared_ptr<Router> router;
  DraftStore store;
  Ledger ledger;
  DraftRegistry registry;
  std::optional<Recorder> recorder;
  std::optional<RouterSaver> router_saver;
  std::optional<kernels::ThreadPool> pool;
  std::optional<CoreSharing> cores;  // only with a learner
  std::unique_ptr<ReplayBuffer> replay;
  ReplayStats replay_at_start;
  std::unique_ptr<Governor> governor;
  std::unique_ptr<Learner> learner;
  std::atomic<bool> wants_learning{true};
  std::shared_ptr<PastAnswersTable> past_answers;  // null: none are kept
  std::uint64_t cache_bytes = 0;
  std::int32_t max_positions = 0;         // of one request: the context, or the whole cache if that is smaller
  std::optional<SpeedForecast> forecast;  // only if slo.admission refuses
  std::optional<Engine> engine;
  std::future<void> engine_ended;
  std::jthread engine_thread;
  std::optional<Purger> purger;
};

Serving::Serving(const ServeConfig& config, Metrics& metrics, StepListener& quotas)
    : state_(std::make_unique<State>(config, metrics, quotas)) {
  State* state = state_.get();
  metrics.set_gauges([state] {
    Metrics::Gauges now;
    now.running = state->engine->n_running();
    now.waiting = state->engine->n_waiting();
    now.free_pages = state->engine->n_free_pages();
    if (state->learner) now.replay_records = static_cast<double>(state->learner->replay_records());
    now.ledger_rows_dropped = static_cast<double>(state->ledger.dropped());
    now.disk_low = state->disk->low();
    now.data_directory_gone = state->disk->gone();
    now.ledger_refused = state->ledger.failing();
    now.replay_refused = state->learner && state->learner->replay_refused();
    now.learning_fails = state->learner && state->learner->failing();
    now.memory = serving_memory(state->target, state->device == nullptr ? state->cache_bytes : 0, state->registry);
    if (state->past_answers) now.memory.emplace_back("past_answers", state->past_answers->bytes());
    now.learning = state->learner && state->wants_learning && !state->disk->pauses();
    return now;
  });
}

Serving::~Serving() {
  state_->metrics.set_gauges({});
  drain(std::chrono::milliseconds(0));
}

std::shared_ptr<const ServedModel> Serving::model() const {
  State* state = state_.get();
  auto model = std::make_shared<ServedModel>();
  model->names = state->config.served_names;
  model->max_waiting = static_cast<std::size_t>(state->config.engine.max_waiting);
  if (model->names.empty()) model->names = {folder_name(state->config.target)};
  model->system_fingerprint = state->fingerprint;
  model->tokenizer = state->target.tokenizer;
  model->chat_template = load_chat_template(state->config.target, state->config.chat_template);
  model->max_positions = state->max_positions;
  model->end_ids = state->target.weights->config.eos_ids;
  model->router = state->router;
  model->slo_tiers = state->config.slo_tiers;
  model->live_drafts = state->registry.live_drafts;
  model->past_answers = state->past_answers;
  model->k = state->engine->options().k;
  model->drafts = &state->store;
  model->engine.submit = std::bind_front(&Engine::submit, &*state->engine);
  if (state->forecast) model->engine.check_speed = std::bind_front(&State::check_speed, state);
  model->purge = [state](PurgeOrder order, std::function<void(PurgeResult)> done) {
    state->purger->submit(std::move(order), [state, done = std::move(done)](PurgeResult result) {
      done(for_client(std::move(result), state->config.data_dir));
    });
  };
  model->engine.cancel = std::bind_front(&Engine::cancel, &*state->engine);
  return model;
}

bool Serving::started_with_learning() const {
  return state_->config.learning;
}

void Serving::set_learning(bool on) {
  state_->router->set_learning(router_learns(state_->config, on));
  if (state_->past_answers) state_->past_answers->set_enabled(on);
  if (!state_->learner) return;
  state_->wants_learning = on;
  state_->learner->set_enabled(on);
}

void Serving::set_topics(TopicTable topics) {
  state_->router->set_topics(std::move(topics));
}

void Serving::set_min_free(std::uint64_t bytes) {
  state_->disk->set_least(bytes);
}

// A key's number says nothing of it later.
void Serving::remember_names(const ApiKeys& keys) {
  for (const ApiKey& key : keys.all()) {
    if (key.is_named) state_->ledger.record(TenantNameRow{key.name, key.tenant});
  }
}

std::vector<TenantId> Serving::tenants_named(const std::string& name) {
  return state_->ledger.tenants_named(name);
}

PurgeResult Serving::purge(PurgeOrder order) {
  std::promise<PurgeResult> made;
  state_->purger->submit(std::move(order), [&made](PurgeResult result) { made.set_value(std::move(result)); });
  return made.get_future().get();
}

std::vector<std::string> Serving::start_up_lines() const {
  const State& state = *state_;
  const ServeConfig& config = state.config;
  const ModelConfig& shape = state.target.weights->config;
  std::vector<std::string> lines;
  lines.push_back("model " + folder_name(config.target) + ": " + std::to_string(shape.parameters() / 100'000 / 10) +
                  "." + std::to_string(shape.parameters() / 100'000 % 10) + "M parameters, " +
                  dtype_name(config.dtype) + ", context " + context_text(state.max_positions, shape.max_positions));
  if (state.device != nullptr) {
    lines.push_back("device: " + kernels::cuda::describe_device() + ", for target and drafts: weights and a cache of " +
                    memory_text(state.cache_bytes) + " there");
  }
  lines.push_back(state.memory_line());
  lines.push_back("threads: engine " + std::to_string(state.pool->n_threads()) +
                  (state.pool->is_pinned() ? " on cores of their own" : "") +
                  (state.learner ? ", " + std::to_string(state.cores->leased_threads()) + " while learning has its " +
                                       std::to_string(config.learner.cores)
                                 : "") +
                  ", " + std::to_string(usable_cores()) + " cores usable");
  if (config.draft.empty()) {
    const int k = state.engine->options().k;
    lines.push_back(
        (k > 0 ? "proposing by prompt lookup alone, k = " + std::to_string(k) : std::string("decoding plainly")) +
        ", there is no draft yet; make one with: slipstream warmup --target " + config.target.string() +
        " --data PROMPTS.jsonl --draft-config configs/demo-draft.toml --out drafts/" + folder_name(config.target));
  } else {
    lines.push_back("drafting k = " + std::to_string(state.engine->options().k) + " from " + config.draft.string() +
                    ", learning " + learning_text(state.learner != nullptr, config, state.registry) + ", " +
                    std::to_string(state.topics.size() - 1) + " topics");
  }
  lines.push_back("data in " + config.data_dir.string() +
                  (state.replay ? ", with " + std::to_string(state.replay_at_start.records) + " replay records (" +
                                      memory_text(state.replay_at_start.bytes) + ")"
                                : ""));
  if (config.server.log_prompts) lines.push_back("PROMPTS AND ANSWERS ARE LOGGED (server.log_prompts)");
  return lines;
}

void Serving::drain(std::chrono::milliseconds patience) {
  State& state = *state_;
  state.purger->close();
  if (!state.engine_thread.joinable()) return;
  state.engine->close();
  if (state.engine_ended.wait_for(patience) != std::future_status::ready) state.engine_thread.request_stop();
  state.engine_thread.join();
}

void Serving::save() {
  State& state = *state_;
  state.purger->stop();
  if (state.learner) state.learner->stop();
  state.router_saver->stop();
  state.recorder->finish();
  state.ledger.flush();
  if (!state.engine_thread.joinable()) state.save_step_times();
}

}  // namespace slip::cli
