// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/draft_store.h"
#include "common/log.h"
#include "distill/learner.h"
#include "distill/replay/replay_buffer.h"
#include "engine/engine.h"
#include "ledger/ledger.h"
#include "router/router.h"
#include "router/topic.h"
#include "server/http/options.h"

namespace slip::cli {

enum class GovernorKind { kPayback, kSlack, kStepsPerRequest };

struct GovernorChoice {
  GovernorKind kind = GovernorKind::kPayback;
  double steps_per_request = 2;  // 0 … 64; exact with "steps_per_request:N", else a bound
  double max_share = 0.1;        // 0 … 1; payback only
  double payback_s = 600;        // 1 … 86,400; payback only
  double latency_slack = 0.05;   // 0 … 10; slack only
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
  bool expose_auto = true;  // expose_acceptance depends on the number of keys that share the drafts
  EngineOptions engine{.adaptive_k = true, .prompt_lookup = true};
  bool speculation = true;
  bool learning = true;
  GovernorChoice governor;
  LearnerOptions learner;  // serve sets the folders, k and dtype
  ReplayOptions replay;
  RetentionPolicy retention;
  LedgerOptions ledger;
  std::filesystem::path topics_file;  // that `topics` are from; empty: built in
  std::vector<Topic> topics;
  RouterOptions router;
};

// The values that the command line overrides.
struct ServeOverrides {
  std::string config, target, draft, chat_template, host, data_dir;
  std::optional<int> k, port, threads;
  bool no_learning = false, no_speculation = false;
};

// configs/topics.toml as of build time, for a service started without a configuration.
std::vector<Topic> built_in_topics();

// Error{kInvalidArgument} naming file, line and key; for an unknown key also the nearest known one.
ServeConfig parse_serve_config(const std::string& toml, const std::string& where, ServeConfig config);
std::vector<Topic> parse_topics(const std::string& toml, const std::string& where);

// Reads defaults ← file; an empty `file` gives the defaults. A target is not required.
ServeConfig read_serve_config(const std::string& file);
// Reads defaults ← file ← command line. `--target` drops the file's draft and chat template, which belong to the file's
// target.
ServeConfig load_serve_config(const ServeOverrides& overrides);

// With more than one key, acceptance counts reveal to one client how another trained a draft; "auto" then hides them
// (S14).
ServerOptions server_options(const ServeConfig& config, std::size_t n_keys);

// The effective configuration as TOML, without topics' examples. Contains no secrets.
std::string to_toml(const ServeConfig& config);
// The keys that a file may have, with their values, and with ranges and help as comments: configs/default.toml. For
// topics it has their file.
std::string to_commented_toml(const ServeConfig& config);
// to_toml() as "section.key" → value, for comparing two configurations; all topics together are "topic".
std::map<std::string, std::string> effective_values(const ServeConfig& config);

}  // namespace slip::cli
