// SPDX-License-Identifier: Apache-2.0
// Write the effective configuration in the form and order of configs/default.toml.
#include <toml++/toml.h>
#include <sstream>

#include "cli/config/serve_config.h"

namespace slip::cli {
namespace {

constexpr std::int64_t kDayUs = std::int64_t{24} * 3600 * 1'000'000;

toml::array list(const std::vector<std::string>& texts) {
  toml::array out;
  for (const auto& text : texts) out.push_back(text);
  return out;
}

template <class Integer>
std::int64_t integer(Integer value) {
  return static_cast<std::int64_t>(value);
}

toml::table model_table(const ServeConfig& config) {
  return toml::table{{"target", config.target.string()},
                     {"draft", config.draft.string()},
                     {"chat_template", config.chat_template.string()},
                     {"served_names", list(config.served_names)},
                     {"dtype", config.dtype == Dtype::kFloat32 ? "float32" : "bfloat16"},
                     {"device", config.device == Device::kCuda ? "cuda" : "cpu"},
                     {"threads", config.threads},
                     {"pin_threads", config.pin_threads},
                     {"cache_tokens", config.cache_tokens}};
}

toml::table server_table(const ServeConfig& config) {
  const ServerOptions& server = config.server;
  return toml::table{{"host", server.host},
                     {"port", server.port},
                     {"api_keys_file", config.api_keys_file.string()},
                     {"tls_certificate", server.tls_certificate.string()},
                     {"tls_key", server.tls_key.string()},
                     {"key_requests_in_flight", server.key_limits.requests_in_flight},
                     {"key_requests_per_minute", server.key_limits.requests_per_minute},
                     {"key_tokens_per_minute", server.key_limits.tokens_per_minute},
                     {"allowed_hosts", list(server.allowed_hosts)},
                     {"allowed_origins", list(server.allowed_origins)},
                     {"expose_acceptance", exposure_name(config)},
                     {"io_threads", server.io_threads},
                     {"max_connections", server.max_connections},
                     {"max_header_bytes", integer(server.max_header_bytes)},
                     {"max_body_bytes", integer(server.max_body_bytes)},
                     {"max_answer_bytes", integer(server.max_answer_bytes)},
                     {"max_buffered_bytes", integer(server.max_buffered_bytes)},
                     {"header_timeout_ms", integer(server.header_timeout.count())},
                     {"body_timeout_ms", integer(server.body_timeout.count())},
                     {"idle_timeout_ms", integer(server.idle_timeout.count())},
                     {"write_timeout_ms", integer(server.write_timeout.count())},
                     {"heartbeat_ms", integer(server.heartbeat.count())},
                     {"drain_timeout_ms", integer(server.drain_timeout.count())},
                     {"retry_after_s", server.retry_after_s},
                     {"log_prompts", server.log_prompts}};
}

toml::table learning_table(const ServeConfig& config) {
  const LearnerOptions& learner = config.learner;
  return toml::table{{"enabled", config.learning},
                     {"governor", governor_name(config.governor)},
                     {"max_share", config.governor.max_share},
                     {"payback_s", config.governor.payback_s},
                     {"latency_slack", config.governor.latency_slack},
                     {"steps_per_request", config.governor.steps_per_request},
                     {"cores", learner.cores},
                     {"device", learner.trainer.device == TrainingDevice::kCuda ? "cuda" : "cpu"},
                     {"loss", loss_name(learner.trainer.loss.kind)},
                     {"jsd_beta", learner.trainer.loss.beta},
                     {"optimizer", optimizer_name(learner.trainer.optimizer)},
                     {"learning_rate", learner.trainer.learning_rate},
                     {"matrix_learning_rate", learner.trainer.matrix_learning_rate},
                     {"weight_decay", learner.trainer.weight_decay},
                     {"average_decay", learner.trainer.average_decay},
                     {"max_grad_norm", learner.trainer.max_grad_norm},
                     {"microbatch_tokens", learner.trainer.microbatch_tokens},
                     {"batch_requests", learner.batch_requests},
                     {"steps_between_candidates", learner.steps_between_candidates},
                     {"memory_bytes", integer(learner.memory_bytes)},
                     {"save_s", learner.save_us / 1'000'000},
                     {"queue_observations", integer(learner.queue_observations)},
                     {"seed", integer(learner.seed)}};
}

// Examples may fill pages: they are compared, but not printed.
toml::array topic_tables(const ServeConfig& config, bool with_examples) {
  toml::array topics;
  for (const Topic& topic : config.topics) {
    toml::table one{{"name", topic.name}, {"aliases", list(topic.aliases)}};
    if (with_examples) one.insert("examples", list(topic.examples));
    topics.push_back(std::move(one));
  }
  return topics;
}

toml::table table_of(const ServeConfig& config) {
  const CanaryOptions& canary = config.learner.canary;
  const ReplayOptions& replay = config.replay;
  return toml::table{
      {"model", model_table(config)},
      {"data",
       toml::table{{"directory", config.data_dir.string()}, {"min_free_bytes", integer(config.min_free_bytes)}}},
      {"log", toml::table{{"level", log_level_name(config.log.level)},
                          {"format", config.log.format == LogFormat::kJson ? "json" : "text"},
                          {"file", config.log.file.string()}}},
      {"topic", topic_tables(config, /*with_examples=*/false)},
      {"router", toml::table{{"classify", config.router.classify},
                             {"learn", config.router.learn},
                             {"min_confidence", config.router.min_confidence}}},
      {"server", server_table(config)},
      {"engine", toml::table{{"max_running", config.engine.max_running},
                             {"max_waiting", config.engine.max_waiting},
                             {"prefill_chunk", config.engine.prefill_chunk},
                             {"prefix_cache", config.engine.prefix_cache},
                             {"catch_up_chunk", config.engine.catch_up_chunk}}},
      {"speculation", toml::table{{"enabled", config.speculation},
                                  {"k", config.engine.k},
                                  {"adaptive", config.engine.adaptive_k},
                                  {"prompt_lookup", config.engine.prompt_lookup}}},
      {"learning", learning_table(config)},
      {"canary", toml::table{{"margin", canary.margin},
                             {"min_requests", integer(canary.min_requests)},
                             {"odds_to_publish", canary.odds_to_publish},
                             {"odds_to_refuse", canary.odds_to_refuse},
                             {"odds_to_roll_back", canary.odds_to_roll_back}}},
      {"replay", toml::table{{"max_bytes_per_topic", integer(replay.max_bytes_per_topic)},
                             {"segment_bytes", integer(replay.segment_bytes)},
                             {"ttl_days", replay.ttl_us / kDayUs},
                             {"recency_half_life_requests", replay.recency_half_life_requests},
                             {"heldout_share", replay.heldout_share}}},
      {"drafts", toml::table{{"keep_last", config.retention.keep_last},
                             {"keep_days", config.retention.keep_younger_than_us / kDayUs},
                             {"max_bytes", integer(config.retention.max_bytes)}}},
      {"ledger", toml::table{{"commit_interval_ms", config.ledger.commit_interval_us / 1000},
                             {"keep_days", config.ledger.keep_requests_us / kDayUs},
                             {"max_bytes", integer(config.ledger.max_bytes)},
                             {"queue_rows", integer(config.ledger.queue_rows)}}},
  };
}

template <class Node>
std::string text_of(const Node& node) {
  std::ostringstream out;
  out << node;
  return out.str();
}

}  // namespace

const char* exposure_name(const ServeConfig& config) {
  if (config.expose_auto) return "auto";
  switch (config.server.expose_acceptance) {
    case ExposeAcceptance::kAll:
      return "all";
    case ExposeAcceptance::kOwn:
      return "own";
    case ExposeAcceptance::kNone:
      break;
  }
  return "none";
}

std::string to_toml(const ServeConfig& config) {
  return text_of(table_of(config)) + "\n";
}

std::map<std::string, std::string> effective_values(const ServeConfig& config) {
  std::map<std::string, std::string> values;
  const toml::table all = table_of(config);
  values["topic"] = text_of(topic_tables(config, /*with_examples=*/true));
  for (const auto& [section, content] : all) {
    const std::string name(section.str());
    const toml::table* keys = content.as_table();
    if (keys == nullptr) continue;
    for (const auto& [key, value] : *keys) {
      values[name + "." + std::string(key.str())] = value.visit([](const auto& node) { return text_of(node); });
    }
  }
  return values;
}

}  // namespace slip::cli
