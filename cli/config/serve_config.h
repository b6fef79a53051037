// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "cli/cache_size.h"
#include "common/log.h"
#include "distill/learner.h"
#include "distill/replay/replay_buffer.h"
#include "engine/engine.h"
#include "ledger/ledger.h"
#include "router/router.h"
#include "router/topic.h"
#include "server/http/options.h"
#include "server/openai/slo_tier.h"

namespace slip::cli {

// The treatment of requests whose asked speed is predicted to be missed.
enum class SloAdmission { kServe, kRefuse };

enum class GovernorKind { kPayback, kSlack, kStepsPerRequest };

// learning.governor and its settings.
struct GovernorChoice {
  GovernorKind kind = GovernorKind::kPayback;
  double steps_per_request = 2;  // 0 … 64 optimizer steps; kStepsPerRequest: exactly, else at most
  double max_share = 0.1;        // 0 … 1; read by kPayback only
  double payback_s = 600;        // 1 … 86,400; read by kPayback only
  double latency_slack = 0.05;   // 0 … 10; read by kSlack only
};

// The configuration of `serve`, parsed and validated once. Relative paths refer to the working directory.
struct ServeConfig {
  std::filesystem::path target, draft;    // draft empty: plain decoding
  std::filesystem::path chat_template;    // a Jinja file; empty: the target's own
  std::vector<std::string> served_names;  // empty: the target folder's name
  Dtype dtype = Dtype::kBFloat16;
  Device device = Device::kCpu;   // of target and drafts
  int threads = 0;                // 0: the cores this process may use
  bool pin_threads = true;        // each thread to its own CPU, if there are enough
  std::int32_t cache_tokens = 0;  // of the target's KV cache; 0: max_running × context, at most a quarter of memory
  std::filesystem::path data_dir = "slipstream-data";
  std::uint64_t min_free_bytes = std::uint64_t{1} << 30;  // learning and the ledger pause below this; 0: never
  LogOptions log;
  std::filesystem::path api_keys_file;
  ServerOptions server;
  bool expose_auto = true;  // server_options() sets server.expose_acceptance by the number of API keys
  EngineOptions engine{.k = 8, .adaptive_k = true, .tree_width = 2, .prompt_lookup = true, .deadlines = true};
  bool speculation = true;
  bool learning = true;
  std::uint64_t past_answers_bytes = std::uint64_t{64} << 20;  // PastAnswersTable's limit; 0: none are kept
  GovernorChoice governor;
  LearnerOptions learner;  // serve sets the folders, k and dtype
  ReplayOptions replay;
  RetentionPolicy retention;
  LedgerOptions ledger;
  std::filesystem::path topics_file;  // that `topics` are from; empty: built in
  std::vector<Topic> topics;
  RouterOptions router;
  std::vector<SloTier> slo_tiers;  // speeds that requests may ask for by name
  SloAdmission slo_admission = SloAdmission::kServe;
  std::vector<std::string> warnings;  // unused settings of the file, each with the reason
};

// The values that the command line overrides.
struct ServeOverrides {
  std::string config, target, draft, chat_template, host, data_dir;
  std::optional<int> k, tree_width, port, threads;
  bool no_learning = false, no_speculation = false;
};

// configs/topics.toml as of build time, for a service started without a configuration.
std::vector<Topic> built_in_topics();

// Parses a TOML configuration; keys that it lacks keep their values in `config`. `where`: the file's name, for errors.
// Error{kInvalidArgument} naming file, line and key; for an unknown key also the nearest known one.
ServeConfig parse_serve_config(const std::string& toml, const std::string& where, ServeConfig config);
// Parses the file that topics.file names. Same errors.
std::vector<Topic> parse_topics(const std::string& toml, const std::string& where);

// The defaults, overridden by the keys of `file`; an empty path gives the defaults. For commands that need no target.
// Error{kInvalidArgument} also for a file that cannot be read.
ServeConfig read_serve_config(const std::string& file);
// The configuration that `serve` starts with: the defaults, overridden by the file, then by the command line.
// `--target` also drops the file's draft and chat template, which belong to the file's target. Error{kInvalidArgument}
// as above, and without a target, without a data directory, or with more threads than check_threads() allows.
ServeConfig load_serve_config(const ServeOverrides& overrides);

// The server's options for a service with `n_keys` API keys. With several, acceptance counts tell one client how
// another trained a draft, so "auto" hides them (docs/security.md, S14).
ServerOptions server_options(const ServeConfig& config, std::size_t n_keys);

// Of the target's KV cache.
CacheOptions cache_options(const ServeConfig& config);

// All keys with their values as TOML, without topics' examples. Contains no secrets: API keys have a file of their own.
std::string to_toml(const ServeConfig& config);
// The keys that a file may have, with their values, and with ranges and help as comments: configs/default.toml. For
// topics it has their file.
std::string to_commented_toml(const ServeConfig& config);
// to_toml() as a map from "section.key" to the value as text, for comparing two configurations. The value of "topic" is
// all topics with their examples.
std::map<std::string, std::string> effective_values(const ServeConfig& config);

}  // namespace slip::cli
