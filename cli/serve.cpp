// SPDX-License-Identifier: Apache-2.0
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "cli/command.h"
#include "cli/config/check_config.h"
#include "cli/config/reload.h"
#include "cli/config/serve_config.h"
#include "cli/process/open_files.h"
#include "cli/process/stop_signal.h"
#include "cli/process/stop_while_loading.h"
#include "cli/service/control_socket.h"
#include "cli/service/purge_command.h"
#include "cli/service/serving.h"
#include "cli/standard_output.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/escape_controls.h"
#include "common/file.h"
#include "common/log.h"
#include "common/thread_priority.h"
#include "engine/contain.h"
#include "engine/speculative/proposal.h"
#include "server/http/gatekeeper.h"
#include "server/http/key_quotas.h"
#include "server/http/tls.h"
#include "server/http_server.h"

namespace slip::cli {
namespace {

constexpr std::chrono::milliseconds kFlushCheck{5};
constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream serve -c configs/default.toml --port 8000\n"
    "  slipstream serve -c configs/default.toml --check-config\n"
    "  slipstream serve --list-config > mine.toml\n"
    "  slipstream serve --target checkpoints/demo/target --draft checkpoints/demo/draft --data-dir /tmp/data --k 5\n"
    "  SLIPSTREAM_API_KEY=… slipstream serve -c configs/default.toml --host 0.0.0.0\n"
    "--check-config reads the configuration and the files that it names: topics, API keys, TLS, chat template, and of\n"
    "the models all but the weights' values. It checks that the devices are there, that weights and cache fit into\n"
    "memory, and that the data directory and log.file can be written. It makes nothing. Only a start finds weights\n"
    "that are not finite, a port or data directory in use, and damage in the data directory.\n"
    "--list-config prints a whole configuration file: every key with its range, its help, and its value in the file\n"
    "of -c, else its default. The other options do not change it.\n"
    "SIGHUP reads the configuration again: [log], data.min_free_bytes, learning.enabled (where it was on at the "
    "start),\n"
    "topics' aliases and examples, API keys (of the file; the environment's stay) with their limits, and the TLS\n"
    "certificate, for new connections, take effect; the rest is named as needing a restart. One faulty file, and\n"
    "nothing changes. SIGUSR1 reopens log.file after a rotation, as SIGHUP does too.\n"
    "A log that is not read stops nothing: up to 4,096 lines wait, further ones are dropped and counted\n"
    "(slipstream:dropped_total{what=\"log_lines\"}).\n"
    "SIGTERM and SIGINT: no new work, finish what runs (server.drain_timeout_ms), save, exit 0. While the model\n"
    "loads, exit 0 at once. A second one exits at once, with status 1.";

// Reads the keys and wipes the environment's copy, so that /proc and child processes do not show them.
ApiKeys take_environment_keys() {
  char* const environment = std::getenv("SLIPSTREAM_API_KEY");
  const std::string given = environment == nullptr ? "" : environment;
  if (environment != nullptr) ::explicit_bzero(environment, given.size());
  ::unsetenv("SLIPSTREAM_API_KEY");
  return ApiKeys::of_environment(given);
}

ApiKeys load_keys_for_serving(const ServeConfig& config, std::span<const SloTier> tiers, const ApiKeys& environment) {
  ApiKeys keys = load_keys(config, tiers, environment);
  if (keys.any_is_short() && !is_loopback(config.server.host)) {
    log_warn("an API key has fewer than " + std::to_string(ApiKeys::kShortKeyBytes) + " characters, and " +
             config.server.host +
             " is reached from outside, where it can be guessed; make one with: openssl rand -hex 32");
  }
  // Disables core dumps, which would contain requests and keys.
  if (!keys.empty()) ::prctl(PR_SET_DUMPABLE, 0);
  return keys;
}

// `wanted`, or fewer if the limit of open files is too low.
int allowed_connections(int wanted) {
  const std::uint64_t files = files_for(wanted), allowed = allow_open_files(files);
  if (allowed < kLeastFiles) {
    throw Error(ErrorCode::kIo,
                "this process may have " + std::to_string(allowed) + " files open, and a service needs " +
                    std::to_string(kLeastFiles) + " or it takes no connection",
                "raise its limit, such as by ulimit -n 1024");
  }
  const int connections = connections_within(allowed, wanted);
  if (connections == wanted) return wanted;
  log_warn("at most " + std::to_string(connections) +
           " connections are taken, not server.max_connections = " + std::to_string(wanted) +
           ": this process may have " + std::to_string(allowed) + " files open, fewer than the " +
           std::to_string(files) + " that they may need; raise its hard limit (ulimit -Hn)");
  return connections;
}

// Waits for the last bytes to be sent after the engine has ended.
void await_answers(const Service& service, std::int64_t until_us) {
  while (service.n_active > 0 && monotonic_us() < until_us) std::this_thread::sleep_for(kFlushCheck);
}

void end_in_order(const ServeConfig& config, Service& service, Serving& serving, HttpServer& server) {
  const auto patience = config.server.drain_timeout;
  const std::int64_t until_us = monotonic_us() + std::chrono::microseconds(patience).count();
  log_parts(LogLevel::kInfo, {"stopping: no new work, finishing ",
                              counted(static_cast<std::uint64_t>(service.n_active.load()), "answer"),
                              "; a second signal exits at once"});
  service.drain();
  serving.drain(patience);
  await_answers(service, std::max(until_us, monotonic_us() + 1'000'000));
  server.stop();
  serving.save();
  log_info("stopped");
}

// Nobody may read the old file any more, so standard error is told too.
void reopen_log_or_say() {
  const auto failure = contain([] { reopen_log(); });
  if (!failure) return;
  const std::string text = std::string("cannot reopen the log file; the old one stays in use: ") + failure->what();
  log_error(text);
  if (writable_within(STDERR_FILENO, std::chrono::milliseconds(0))) std::cerr << "slipstream: " << text << "\n";
}

// Standard output may be a pipe whose reader has stalled; this thread must not block, since it handles signals. A
// failed write must not end the service or change its exit status.
void announce(const std::string& url) {
  constexpr std::chrono::milliseconds kPatience{1000};
  flush_log(kPatience);
  if (!writable_within(STDOUT_FILENO, kPatience)) return log_warn("standard output has no reader; listening on " + url);
  std::cout << "slipstream is listening on " << url << "\n";
  try {
    finish_standard_output();
  } catch (const Error& error) {
    log_warn("listening on " + url + "; " + error.message());
    forget_standard_output_failure();
  }
}

// A purge of all that a tenant sent also removes the tenant's names; those of keys that are in use are kept.
PurgeResult purge(const PurgeCommand& command, const ApiKeys& keys, Serving& serving) {
  const auto earlier = command.tenant.empty() ? std::vector<TenantId>() : serving.tenants_named(command.tenant);
  const PurgeResult result =
      carry_out_all(orders_of(command, keys, earlier), [&](const PurgeOrder& order) { return serving.purge(order); });
  serving.remember_names(keys);
  return result;
}

std::string answer_command(const std::string& line, const Gatekeeper& gatekeeper, Serving& serving) {
  try {
    return to_line(purge(read_purge(line), *gatekeeper.keys(), serving));
  } catch (const Error& error) {
    return to_line(PurgeResult{.error = error});
  } catch (const std::bad_alloc&) {
    return to_line(PurgeResult{.error = no_memory()});
  }
}

// Without sockets on the file system, or without a thread, the service runs without this command channel.
std::unique_ptr<ControlSocket> open_control(const std::filesystem::path& data_dir, const Gatekeeper& gatekeeper,
                                            Serving& serving) {
  try {
    return std::make_unique<ControlSocket>(
        data_dir, [&](const std::string& line) { return answer_command(line, gatekeeper, serving); });
  } catch (const Error& error) {
    log_warn("`slipstream purge` cannot reach this service while it runs: " + error.message());
    return nullptr;
  }
}

// Ends what the sockets hand to Serving before Serving ends, after an exception too.
class NoLateRequests {
 public:
  NoLateRequests(Service& service, HttpServer& server) : service_(service), server_(server) {}
  ~NoLateRequests() {
    service_.drain();
    server_.stop();
  }
  NoLateRequests(const NoLateRequests&) = delete;
  NoLateRequests& operator=(const NoLateRequests&) = delete;

 private:
  Service& service_;
  HttpServer& server_;
};

// Handles SIGHUP. A refused reload changes nothing and never ends the service.
struct Reloader {
  void reload() {
    try {
      apply(plan_reload(running, load_serve_config(overrides), serving.started_with_learning()));
    } catch (const Error& error) {
      refuse(error);
    } catch (const std::filesystem::filesystem_error& error) {
      refuse(io_error(error));
    } catch (const std::bad_alloc&) {
      log_error("reload stopped, out of memory: it may have taken effect in part; send SIGHUP again");
    }
  }
  static void refuse(const Error& error) {
    const bool hints = !error.hint().empty();
    log_parts(LogLevel::kError, {"reload refused, nothing was changed: ", error.what(), hints ? " (" : "", error.hint(),
                                 hints ? ")" : ""});
  }
  // Steps that can fail come first; the log is the last of them.
  void apply(const ReloadPlan& plan) {
    ApiKeys keys = load_keys_for_serving(plan.next, plan.file_tiers, environment_keys);
    auto tls = load_tls(plan.next.server);
    TopicTable topics(plan.next.topics);
    auto model = serving.model();
    set_log(plan.next.log);
    std::vector<std::string> changed = plan.changed;
    if (tls && server.set_tls(std::move(tls))) changed.emplace_back("the TLS certificate");
    if (keys != *gatekeeper.keys()) changed.emplace_back("the API keys");
    const bool opens = keys.empty() && !gatekeeper.keys()->empty();
    service.set_expose_acceptance(server_options(plan.next, keys.size()).expose_acceptance);
    quotas.set_keys(keys, monotonic_us());
    serving.remember_names(keys);
    gatekeeper.set_keys(std::move(keys));
    serving.set_topics(std::move(topics));
    service.open(std::move(model));
    serving.set_min_free(plan.next.min_free_bytes);
    serving.set_learning(plan.next.learning);
    running = plan.next;
    log_info("reloaded; changed: " + listed(changed));
    if (opens)
      log_warn("no API key is left: requests are answered without one; set server.api_keys_file to ask for one");
    if (!plan.needs_restart.empty()) log_warn("needs a restart to change: " + listed(plan.needs_restart));
  }

  const ServeOverrides& overrides;
  const ApiKeys& environment_keys;
  ServeConfig running;
  Gatekeeper& gatekeeper;
  KeyQuotas& quotas;
  Service& service;
  HttpServer& server;
  Serving& serving;
};

void check(const ServeConfig& config) {
  const char* key = std::getenv("SLIPSTREAM_API_KEY");
  std::cout << to_toml(config) << std::flush;
  const std::vector<Error> faults = faults_of(config, key == nullptr ? "" : key);
  for (const Error& fault : faults) {
    std::cerr << "slipstream: " << escape_controls(fault.message()) << "\n";
    if (!fault.hint().empty()) std::cerr << "HINT: " << escape_controls(fault.hint()) << "\n";
  }
  if (faults.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the configuration above would not start: " + counted(faults.size(), "fault"));
}

void list_config(const ServeOverrides& given) {
  std::cout << to_commented_toml(read_serve_config(given.config)) << std::flush;
}

// An empty value is refused for every option, since a variable may be unset. In a configuration it has a meaning, so
// the error says how to get that.
std::string empty_draft_fault(const std::string& value) {
  if (!value.empty()) return {};
  return "must not be empty; to serve without a draft set draft = \"\" in the configuration, to decode plainly use "
         "--no-speculation";
}

void serve(const ServeOverrides& overrides, bool check_only) {
  const ServeConfig config = load_serve_config(overrides);
  const auto warn = [&] {
    for (const std::string& warning : config.warnings) log_warn(warning);
  };
  if (check_only) {
    warn();
    return check(config);
  }
  ask_for_short_slices();  // for all threads but those that serve nobody, which are niced or idle
  const StopSignal signals;
  signals.take_reloads();
  const BackgroundLog background_log;
  set_log(config.log);
  warn();
  const int max_connections = allowed_connections(config.server.max_connections);
  const ApiKeys environment_keys = take_environment_keys();
  Gatekeeper gatekeeper(config.server, load_keys_for_serving(config, config.slo_tiers, environment_keys));
  KeyQuotas quotas(*gatekeeper.keys());
  Metrics metrics;
  ServerOptions options = server_options(config, gatekeeper.keys()->size());
  options.max_connections = max_connections;
  Service service(options, metrics);
  HttpServer server(service, gatekeeper, quotas);
  server.start();  // answers /readyz while the model loads
  std::optional<StopWhileLoading> while_loading(std::in_place, signals);
  Serving serving(config, metrics, quotas);
  while_loading.reset();
  for (const auto& line : serving.start_up_lines()) log_info(line);
  serving.remember_names(*gatekeeper.keys());
  const NoLateRequests no_late_requests(service, server);
  service.open(serving.model());
  const auto control = open_control(config.data_dir, gatekeeper, serving);
  announce(server.url());
  Reloader reloader{overrides, environment_keys, config, gatekeeper, quotas, service, server, serving};
  for (auto kind = signals.next(); kind != StopSignal::Kind::kStop; kind = signals.next()) {
    if (kind == StopSignal::Kind::kReload) reloader.reload();
    reopen_log_or_say();
  }
  end_in_order(config, service, serving, server);
}

}  // namespace

void add_serve(CLI::App& app) {
  auto* command = app.add_subcommand("serve", "Serve a model over HTTP, OpenAI-compatible, with drafts that learn");
  auto given = std::make_shared<ServeOverrides>();
  auto check_only = std::make_shared<bool>(false), list_only = std::make_shared<bool>(false);
  command->add_option("-c,--config", given->config, "TOML file; --list-config shows every key");
  command->add_option("--target", given->target,
                      "Hugging Face folder of the target model: Llama, Mistral, Qwen2 or Qwen3");
  command->add_option("--draft", given->draft, "Hugging Face folder of the base draft; without it, prompt lookup")
      ->check(empty_draft_fault);
  command->add_option("--chat-template", given->chat_template, "Jinja file; without it, the target's own template");
  command->add_option("--k", given->k, "Drafted tokens per step")->check(CLI::Range(0, kMaxProposalNodes));
  command->add_option("--tree-width", given->tree_width, "Most choices of a draft for one place; 1: chains")
      ->check(CLI::Range(1, kMaxTreeWidth));
  command->add_option("--host", given->host, "Address to bind; any but loopback needs an API key");
  command->add_option("--port", given->port, "Port to bind; 0 lets the system choose")->check(CLI::Range(0, 65535));
  command->add_option("--data-dir", given->data_dir, "Data directory of drafts, ledger and replay");
  command->add_option("--threads", given->threads, "Limit of engine threads; 0: all cores this process may use")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--no-learning", given->no_learning, "Serve the drafts without training them");
  command->add_flag("--no-speculation", given->no_speculation, "Decode plainly (k = 0)");
  command->add_flag(
      "--check-config", *check_only,
      "Print and check the effective configuration without starting; exit status 0, or 2 and what is wrong");
  command->add_flag("--list-config", *list_only, "Print every configuration key with its value, range and help");
  command->footer(kFooter);
  command->callback([given, check_only, list_only] {
    if (*list_only) return list_config(*given);
    serve(*given, *check_only);
  });
}

}  // namespace slip::cli
