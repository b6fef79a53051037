// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/serve_config.h"
#include "cli/serving.h"
#include "cli/stop_signal.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/gatekeeper.h"
#include "server/http_server.h"

namespace slip::cli {
namespace {

constexpr std::chrono::milliseconds kFlushCheck{5};

// From the file and the environment, whose copy is wiped: neither /proc nor what this process may start needs it.
ApiKeys load_keys(const ServeConfig& config) {
  char* const environment = std::getenv("SLIPSTREAM_API_KEY");
  const std::string given = environment == nullptr ? "" : environment;
  if (environment != nullptr) ::explicit_bzero(environment, given.size());
  ::unsetenv("SLIPSTREAM_API_KEY");
  ApiKeys keys = ApiKeys::load(config.api_keys_file, given, config.server.key_limits);
  require_key_beyond_loopback(config.server.host, keys);
  // A core dump would hold the requests under way, with their keys.
  if (!keys.empty()) ::prctl(PR_SET_DUMPABLE, 0);
  return keys;
}

// The engine has ended; the last bytes may still be on their way.
void await_answers(const Service& service, std::int64_t until_us) {
  while (service.n_active > 0 && monotonic_us() < until_us) std::this_thread::sleep_for(kFlushCheck);
}

void end_in_order(const ServeConfig& config, Service& service, Serving& serving, HttpServer& server) {
  const auto patience = config.server.drain_timeout;
  const std::int64_t until_us = monotonic_us() + std::chrono::microseconds(patience).count();
  log_info("stopping: no new work, finishing " + std::to_string(service.n_active.load()) +
           " answers; a second signal "
           "exits at once");
  service.drain();
  serving.drain(patience);
  await_answers(service, std::max(until_us, monotonic_us() + 1'000'000));
  server.stop();
  serving.save();
  log_info("stopped");
}

void serve(const ServeOverrides& overrides, bool check_only) {
  const ServeConfig config = load_serve_config(overrides);
  if (check_only) {
    std::cout << to_toml(config);
    return;
  }
  const StopSignal stop;
  const Gatekeeper gatekeeper(config.server, load_keys(config));
  KeyQuotas quotas(gatekeeper.keys());
  Metrics metrics;
  Service service(server_options(config, gatekeeper.keys().size()), metrics);
  HttpServer server(service, gatekeeper, quotas);
  server.start();  // answers /readyz while the model loads
  Serving serving(config, metrics, quotas);
  for (const auto& line : serving.start_up_lines()) log_info(line);
  service.open(serving.model());
  std::cout << "slipstream is listening on " << server.url() << std::endl;
  stop.wait();
  end_in_order(config, service, serving, server);
}

}  // namespace

void add_serve(CLI::App& app) {
  auto* command = app.add_subcommand("serve", "Serve a model over HTTP, OpenAI-compatible, with drafts that learn");
  auto given = std::make_shared<ServeOverrides>();
  auto check_only = std::make_shared<bool>(false);
  command->add_option("-c,--config", given->config, "TOML file; configs/default.toml shows every key");
  command->add_option("--target", given->target, "Hugging Face folder of the target model");
  command->add_option("--draft", given->draft, "Hugging Face folder of the base draft; without it, plain decoding");
  command->add_option("--k", given->k, "Drafted tokens per step")->check(CLI::Range(0, 16));
  command->add_option("--host", given->host, "Address to bind; any but loopback needs an API key");
  command->add_option("--port", given->port, "Port to bind; 0 lets the system choose")->check(CLI::Range(0, 65535));
  command->add_option("--data-dir", given->data_dir, "Where drafts, ledger and replay live");
  command->add_option("--threads", given->threads, "Engine threads; 0 = all cores but learning's")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--no-learning", given->no_learning, "Serve the drafts as they are");
  command->add_flag("--no-speculation", given->no_speculation, "Decode plainly (k = 0)");
  command->add_flag("--check-config", *check_only, "Print the effective configuration and exit");
  command->callback([given, check_only] { serve(*given, *check_only); });
}

}  // namespace slip::cli
