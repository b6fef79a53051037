// SPDX-License-Identifier: Apache-2.0
#include "cli/config/serve_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string_view>

#include "cli/config/toml_reader.h"
#include "cli/usable_cores.h"
#include "common/error.h"
#include "common/file.h"

namespace slip::cli {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 1U << 20;
constexpr std::int64_t kDayUs = std::int64_t{24} * 3600 * 1'000'000;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMaxDays = 36'500;
constexpr std::size_t kMaxServedName = 256;  // bytes
constexpr double kMaxStepsPerRequest = 64;
constexpr std::string_view kStepsPerRequest = "steps_per_request:";

void read_path(TomlSection& section, const char* key, std::filesystem::path& out) {
  std::string text = out.string();
  section.read(key, text);
  out = text;
}

void read_ms(TomlSection& section, const char* key, std::chrono::milliseconds& out) {
  std::int64_t ms = out.count();
  section.read(key, ms, 1, 86'400'000);
  out = std::chrono::milliseconds(ms);
}

void read_days(TomlSection& section, const char* key, std::int64_t& out_us) {
  std::int64_t days = out_us / kDayUs;
  section.read(key, days, 0, kMaxDays);
  out_us = days * kDayUs;
}

// A name that clients request and answers repeat, such as "org/name:tag", in any script but without invisible
// characters.
bool is_served_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxServedName &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

void read_model(TomlSection section, ServeConfig& config) {
  read_path(section, "target", config.target);
  read_path(section, "draft", config.draft);
  read_path(section, "chat_template", config.chat_template);
  section.read("served_names", config.served_names);
  if (!std::all_of(config.served_names.begin(), config.served_names.end(), is_served_name)) {
    section.refuse("served_names", "must hold names of 1 to 256 characters, none of them a control character or blank");
  }
  std::string dtype = config.dtype == Dtype::kFloat32 ? "float32" : "bfloat16";
  section.read_choice("dtype", dtype, {"bfloat16", "float32"});
  config.dtype = dtype == "float32" ? Dtype::kFloat32 : Dtype::kBFloat16;
  std::string device = config.device == Device::kCuda ? "cuda" : "cpu";
  section.read_choice("device", device, {"cpu", "cuda"});
  config.device = device == "cuda" ? Device::kCuda : Device::kCpu;
  if (config.device == Device::kCuda && config.dtype != Dtype::kBFloat16) {
    section.refuse("device", "\"cuda\" computes in bfloat16 alone: leave dtype at \"bfloat16\", or use \"cpu\"");
  }
  section.read("threads", config.threads, 0, 1024);
  section.read("pin_threads", config.pin_threads);
  section.read("cache_tokens", config.cache_tokens, 0, kMaxInt32);
  section.finish();
}

void read_exposure(TomlSection& section, ServeConfig& config) {
  std::string name = exposure_name(config);
  section.read_choice("expose_acceptance", name, {"auto", "all", "own", "none"});
  config.expose_auto = name == "auto";
  config.server.expose_acceptance = name == "own"    ? ExposeAcceptance::kOwn
                                    : name == "none" ? ExposeAcceptance::kNone
                                                     : ExposeAcceptance::kAll;
}

void read_server(TomlSection section, ServeConfig& config) {
  ServerOptions& server = config.server;
  section.read("host", server.host);
  section.read("port", server.port, 0, 65535);
  read_path(section, "api_keys_file", config.api_keys_file);
  read_path(section, "tls_certificate", server.tls_certificate);
  read_path(section, "tls_key", server.tls_key);
  KeyLimits& limits = server.key_limits;
  section.read("key_requests_in_flight", limits.requests_in_flight, 0, KeyLimits::kMostInFlight);
  section.read("key_requests_per_minute", limits.requests_per_minute, 0, KeyLimits::kMostPerMinute);
  section.read("key_tokens_per_minute", limits.tokens_per_minute, 0, KeyLimits::kMostPerMinute);
  section.read("allowed_hosts", server.allowed_hosts);
  section.read("allowed_origins", server.allowed_origins);
  read_exposure(section, config);
  section.read("io_threads", server.io_threads, 1, 2);
  section.read("max_connections", server.max_connections, 1, 65'536);
  section.read("max_header_bytes", server.max_header_bytes, 1 << 10, 1 << 20);
  section.read("max_body_bytes", server.max_body_bytes, 1 << 10, 64 << 20);
  section.read("max_answer_bytes", server.max_answer_bytes, 1 << 10, 64 << 20);
  section.read("max_buffered_bytes", server.max_buffered_bytes, 2 << 10, kMaxBytes);
  const std::uint64_t least = std::uint64_t{server.max_body_bytes} + server.max_answer_bytes;
  if (server.max_buffered_bytes < least) {
    section.refuse("max_buffered_bytes",
                   "must be at least max_body_bytes + max_answer_bytes, which is " + std::to_string(least));
  }
  read_ms(section, "header_timeout_ms", server.header_timeout);
  read_ms(section, "body_timeout_ms", server.body_timeout);
  read_ms(section, "idle_timeout_ms", server.idle_timeout);
  read_ms(section, "write_timeout_ms", server.write_timeout);
  read_ms(section, "heartbeat_ms", server.heartbeat);
  read_ms(section, "drain_timeout_ms", server.drain_timeout);
  section.read("retry_after_s", server.retry_after_s, 0, 3600);
  section.read("log_prompts", server.log_prompts);
  section.finish();
}

void read_router(TomlSection section, RouterOptions& router) {
  section.read("classify", router.classify);
  section.read("learn", router.learn);
  section.read("min_confidence", router.min_confidence, 0, 1);
  section.finish();
}

void read_log(TomlSection section, LogOptions& log) {
  std::string level = log_level_name(log.level);
  section.read_choice("level", level, {"debug", "info", "warn", "error", "off"});
  log.level = parse_log_level(level);
  std::string format = log.format == LogFormat::kJson ? "json" : "text";
  section.read_choice("format", format, {"text", "json"});
  log.format = format == "json" ? LogFormat::kJson : LogFormat::kText;
  read_path(section, "file", log.file);
  section.finish();
}

void read_engine(TomlSection section, EngineOptions& engine) {
  section.read("max_running", engine.max_running, 1, 1024);
  section.read("max_waiting", engine.max_waiting, 1, 65'536);
  section.read("prefill_chunk", engine.prefill_chunk, 1, 16'384);
  section.read("prefix_cache", engine.prefix_cache, 0, 1);
  section.read("catch_up_chunk", engine.catch_up_chunk, 1, 16'384);
  section.finish();
}

GovernorChoice parse_governor(const std::string& text, GovernorChoice choice, const TomlSection& section) {
  choice.kind = text == "payback" ? GovernorKind::kPayback
                : text == "slack" ? GovernorKind::kSlack
                                  : GovernorKind::kStepsPerRequest;
  if (choice.kind != GovernorKind::kStepsPerRequest) return choice;
  std::istringstream number(text.starts_with(kStepsPerRequest) ? text.substr(kStepsPerRequest.size()) : "");
  if (!(number >> choice.steps_per_request) || !number.eof() ||
      !(choice.steps_per_request >= 0 && choice.steps_per_request <= kMaxStepsPerRequest)) {
    section.refuse("governor", "must be \"payback\", \"slack\" or \"steps_per_request:N\" with N from 0 to 64");
  }
  return choice;
}

void read_learning(TomlSection section, ServeConfig& config) {
  LearnerOptions& learner = config.learner;
  section.read("enabled", config.learning);
  section.read("latency_slack", config.governor.latency_slack, 0, 10);
  section.read("steps_per_request", config.governor.steps_per_request, 0, kMaxStepsPerRequest);
  section.read("max_share", config.governor.max_share, 0, 1);
  section.read("payback_s", config.governor.payback_s, 1, 86'400);
  std::string governor = governor_name(config.governor);
  section.read("governor", governor);
  config.governor = parse_governor(governor, config.governor, section);
  section.read("cores", learner.cores, 1, 1024);
  std::string device = "cpu";
  section.read_choice("device", device, {"cpu", "cuda"});
  learner.trainer.device = device == "cuda" ? TrainingDevice::kCuda : TrainingDevice::kCpu;
  std::string loss = loss_name(learner.trainer.loss.kind);
  section.read_choice("loss", loss, {"kl", "rkl", "jsd", "tv"});
  learner.trainer.loss.kind = parse_loss(loss);
  section.read("jsd_beta", learner.trainer.loss.beta, 0.001, 0.999);
  std::string optimizer = optimizer_name(learner.trainer.optimizer);
  section.read_choice("optimizer", optimizer, {"adamw", "muon"});
  learner.trainer.optimizer = parse_optimizer(optimizer);
  section.read("learning_rate", learner.trainer.learning_rate, 0, 1);
  section.read("matrix_learning_rate", learner.trainer.matrix_learning_rate, 0, 1);
  section.read("weight_decay", learner.trainer.weight_decay, 0, 1);
  section.read("average_decay", learner.trainer.average_decay, 0, 0.9999);
  section.read("max_grad_norm", learner.trainer.max_grad_norm, 1e-6, 1e6);
  section.read("microbatch_tokens", learner.trainer.microbatch_tokens, 1, 1 << 20);
  section.read("batch_requests", learner.batch_requests, 1, 1024);
  section.read("steps_between_candidates", learner.steps_between_candidates, 1, 1'000'000);
  section.read("memory_bytes", learner.memory_bytes, 0, kMaxBytes);
  std::int64_t save_s = learner.save_us / 1'000'000;
  section.read("save_s", save_s, 1, 86'400);
  learner.save_us = save_s * 1'000'000;
  section.read("queue_observations", learner.queue_observations, 1, 1 << 20);
  section.read("seed", learner.seed, 0, std::numeric_limits<std::int64_t>::max());
  section.finish();
}

void read_storage(TomlSection& root, ServeConfig& config) {
  auto canary = root.section("canary");
  canary.read("margin", config.learner.canary.margin, 0, 1);
  canary.read("min_requests", config.learner.canary.min_requests, 2, 1'000'000);
  canary.read("odds_to_publish", config.learner.canary.odds_to_publish, 1, 1e9);
  canary.read("odds_to_refuse", config.learner.canary.odds_to_refuse, 1, 1e9);
  canary.read("odds_to_roll_back", config.learner.canary.odds_to_roll_back, 1, 1e9);
  canary.finish();
  auto replay = root.section("replay");
  replay.read("max_bytes_per_topic", config.replay.max_bytes_per_topic, 1 << 16, kMaxBytes);
  replay.read("segment_bytes", config.replay.segment_bytes, 1 << 12, ReplayOptions::kMaxSegmentBytes);
  read_days(replay, "ttl_days", config.replay.ttl_us);
  replay.read("recency_half_life_requests", config.replay.recency_half_life_requests, 1, 1e9);
  replay.read("heldout_share", config.replay.heldout_share, 0, 0.9);
  replay.finish();
  auto drafts = root.section("drafts");
  drafts.read("keep_last", config.retention.keep_last, 1, 1'000'000);
  read_days(drafts, "keep_days", config.retention.keep_younger_than_us);
  drafts.read("max_bytes", config.retention.max_bytes, 1 << 20, kMaxBytes);
  drafts.finish();
  auto ledger = root.section("ledger");
  std::int64_t commit_ms = config.ledger.commit_interval_us / 1000;
  ledger.read("commit_interval_ms", commit_ms, 10, 1000);  // one second is the most that promise 5 allows
  config.ledger.commit_interval_us = commit_ms * 1000;
  read_days(ledger, "keep_days", config.ledger.keep_requests_us);
  ledger.read("max_bytes", config.ledger.max_bytes, 1 << 20, kMaxBytes);
  ledger.read("queue_rows", config.ledger.queue_rows, 16, 1 << 20);
  ledger.finish();
}

void apply(const ServeOverrides& given, ServeConfig& config) {
  if (!given.target.empty()) {
    config.target = given.target;
    config.draft.clear();
    config.chat_template.clear();
  }
  if (!given.draft.empty()) config.draft = given.draft;
  if (!given.chat_template.empty()) config.chat_template = given.chat_template;
  if (!given.host.empty()) config.server.host = given.host;
  if (!given.data_dir.empty()) config.data_dir = given.data_dir;
  if (given.k) config.engine.k = *given.k;
  if (given.port) config.server.port = static_cast<std::uint16_t>(*given.port);
  if (given.threads) config.threads = *given.threads;
  if (given.no_learning) config.learning = false;
  if (given.no_speculation) config.speculation = false;
}

}  // namespace

std::string governor_name(const GovernorChoice& choice) {
  if (choice.kind == GovernorKind::kPayback) return "payback";
  if (choice.kind == GovernorKind::kSlack) return "slack";
  std::ostringstream name;
  name << kStepsPerRequest << choice.steps_per_request;
  return name.str();
}

std::vector<Topic> parse_topics(const std::string& toml, const std::string& where) {
  const toml::table table = parse_toml(toml, where);
  TomlSection root(table, where, "");
  std::vector<Topic> topics;
  if (const toml::array* list = root.tables("topic")) {
    for (const auto& one : *list) {
      TomlSection section(*one.as_table(), where, "topic");
      Topic topic;
      section.read("name", topic.name);
      if (is_reserved_topic_name(topic.name)) {
        section.refuse("name",
                       "must not be \"" + topic.name + "\": the draft that all topics start from has that name");
      }
      section.read("aliases", topic.aliases);
      section.read("examples", topic.examples);
      section.finish();
      topics.push_back(std::move(topic));
    }
  }
  root.finish();
  try {
    TopicTable checked(topics);  // checks names, repetitions and bounds
  } catch (const Error& error) {
    throw Error(error.code(), where + ": " + error.message(), error.hint(), error.param());
  }
  return topics;
}

ServeConfig parse_serve_config(const std::string& toml, const std::string& where, ServeConfig config) {
  const toml::table table = parse_toml(toml, where);
  TomlSection root(table, where, "");
  read_model(root.section("model"), config);
  auto data = root.section("data");
  read_path(data, "directory", config.data_dir);
  data.read("min_free_bytes", config.min_free_bytes, 0, kMaxBytes);
  data.finish();
  auto topics = root.section("topics");
  std::filesystem::path topics_file;
  read_path(topics, "file", topics_file);
  topics.finish();
  if (!topics_file.empty()) {
    config.topics = parse_topics(read_file(topics_file, kMaxConfigBytes), topics_file.string());
  }
  read_router(root.section("router"), config.router);
  read_log(root.section("log"), config.log);
  read_server(root.section("server"), config);
  read_engine(root.section("engine"), config.engine);
  auto speculation = root.section("speculation");
  speculation.read("enabled", config.speculation);
  speculation.read("k", config.engine.k, 0, 16);
  speculation.read("adaptive", config.engine.adaptive_k);
  speculation.read("prompt_lookup", config.engine.prompt_lookup);
  speculation.finish();
  read_learning(root.section("learning"), config);
  read_storage(root, config);
  root.finish();
  return config;
}

ServerOptions server_options(const ServeConfig& config, std::size_t n_keys) {
  ServerOptions options = config.server;
  if (config.expose_auto) options.expose_acceptance = n_keys > 1 ? ExposeAcceptance::kNone : ExposeAcceptance::kAll;
  return options;
}

ServeConfig read_serve_config(const std::string& file) {
  ServeConfig config;
  config.topics = built_in_topics();
  if (file.empty()) return config;
  return parse_serve_config(read_file(file, kMaxConfigBytes), file, std::move(config));
}

ServeConfig load_serve_config(const ServeOverrides& overrides) {
  ServeConfig config = read_serve_config(overrides.config);
  apply(overrides, config);
  if (config.target.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no target model is named",
                "pass --target DIR, or -c configs/default.toml for the embedded one", "target");
  }
  if (config.data_dir.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "data.directory must not be empty", {}, "data.directory");
  }
  check_threads(config.threads, overrides.threads ? "--threads" : "model.threads");
  check_threads(config.learner.cores, "learning.cores");
  return config;
}

}  // namespace slip::cli
