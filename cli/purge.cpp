// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "checkpoints/data_directory_lock.h"
#include "cli/command.h"
#include "cli/config/serve_config.h"
#include "cli/service/control_socket.h"
#include "cli/service/part_options.h"
#include "cli/service/purge_command.h"
#include "cli/service/purger.h"
#include "cli/time_argument.h"
#include "common/clock.h"
#include "common/error.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream purge --request chatcmpl-000647c8bd5e2f10 --data-dir slipstream-data\n"
    "  slipstream purge --tenant team-a -c configs/default.toml\n"
    "  slipstream purge --before 2026-11-20T10:00:00Z --data-dir slipstream-data\n"
    "  slipstream purge --tenant team-a --before 7d -c configs/default.toml\n"
    "Removes prompts and answers from replay and the rows about single requests from the ledger, of requests that\n"
    "meet every condition given and have finished. When it returns their bytes are in no file of the data directory.\n"
    "A running service is asked to do it (by <data-dir>/control.sock) and goes on serving; else the files are changed\n"
    "here. A client deletes its own request by DELETE /v1/requests/ID.\n"
    "WHAT WAS LEARNED FROM A RECORD STAYS in the weights of drafts and in the router, and counts by topic and time "
    "stay\n"
    "in the ledger: they name no request. Copies elsewhere are not reached: backups, and a log with "
    "server.log_prompts.\n"
    "--tenant means every API key that has or had this name while the service ran, removed ones too.\n"
    "Where nothing meets the conditions it says so, with status 0: a purge may be run again. A name that no key has "
    "or\n"
    "had is status 2, also after a purge of all that a removed key of that name left.\n"
    "To be rid of what was learned too, stop the service and remove drafts/, optimizer/ and router.state.";

struct PurgeFlags {
  std::string config, data_dir, before;
  PurgeCommand command;
};

PurgeCommand checked(const PurgeFlags& flags) {
  PurgeCommand command = flags.command;
  if (!flags.before.empty()) command.before_us = parse_instant_us(flags.before, "--before", wall_us());
  if (command.request.empty() && command.tenant.empty() && !command.before_us) {
    throw Error(ErrorCode::kInvalidArgument, "name what to purge: --request, --tenant or --before",
                "everything that has finished: --before now");
  }
  check_names(command);
  return command;
}

ApiKeys known_keys(const ServeConfig& config) {
  const char* environment = std::getenv("SLIPSTREAM_API_KEY");
  return ApiKeys::load(config.api_keys_file, ApiKeys::of_environment(environment == nullptr ? "" : environment));
}

// Ledger options that delete nothing else: no retention limits.
LedgerOptions resting_ledger(const fs::path& file) {
  LedgerOptions options;
  options.file = file;
  options.keep_requests_us = std::numeric_limits<std::int64_t>::max() / 4;
  options.max_bytes = std::numeric_limits<std::uint64_t>::max();
  return options;
}

// REQUIRES: the data directory is locked.
PurgeResult purge_at_rest(const fs::path& data_dir, const PurgeCommand& command, const ServeConfig& config) {
  const PurgeReplay purge_replay = [&](const PurgeScope& scope) {
    return purge_resting_replay(data_dir / "replay", scope);
  };
  warn_of_lost_ledger(data_dir);
  Ledger ledger(resting_ledger(data_dir / "ledger.db"));
  const auto orders = command.tenant.empty()
                          ? orders_of(command, {}, {})
                          : orders_of(command, known_keys(config), ledger.tenants_named(command.tenant));
  return carry_out_all(orders, [&](const PurgeOrder& order) { return carry_out(order, ledger, purge_replay); });
}

PurgeResult ask_holder(const fs::path& data_dir, const PurgeCommand& command, const Error& in_use) {
  try {
    return read_result(ask_service(data_dir, to_line(command)));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    throw Error(ErrorCode::kConflict, in_use.message() + ", which takes no purge now: " + error.message(),
                error.hint());
  }
}

PurgeResult purge(const fs::path& data_dir, const PurgeCommand& command, const ServeConfig& config) {
  std::optional<DataDirectoryLock> lock;
  try {
    lock.emplace(data_dir);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kConflict) throw;
    return ask_holder(data_dir, command, error);
  }
  return purge_at_rest(data_dir, command, config);
}

void run(const PurgeFlags& flags) {
  const PurgeCommand command = checked(flags);
  const ServeConfig config = read_serve_config(flags.config);
  const fs::path data_dir = flags.data_dir.empty() ? config.data_dir : fs::path(flags.data_dir);
  if (!fs::exists(data_dir / "ledger.db") && !fs::exists(data_dir / "replay")) {
    throw Error(ErrorCode::kNotFound, data_dir.string() + " is no data directory: it has neither ledger.db nor replay/",
                "name it by --data-dir or -c");
  }
  const PurgeResult result = purge(data_dir, command, config);
  if (result.error) throw Error(*result.error);
  std::cout << purge_text(result, command, data_dir) << "\n" << std::flush;
  if (!std::cout) {
    throw Error(ErrorCode::kIo,
                std::string(result.records + result.rows > 0 ? "it is purged" : "nothing was to be purged") +
                    ", but standard output could not be written");
  }
}

}  // namespace

void add_purge(CLI::App& app) {
  auto flags = std::make_shared<PurgeFlags>();
  auto* command = app.add_subcommand("purge", "Remove stored data of requests, also from a running service");
  command->footer(kFooter);
  command->add_option("-c,--config", flags->config, "TOML file of the service: its data directory and its API keys");
  command->add_option("--data-dir", flags->data_dir, "Data directory of drafts, ledger and replay");
  command->add_option("--request", flags->command.request, "An answer's id, such as chatcmpl-…, or its X-Request-Id");
  command->add_option("--tenant", flags->command.tenant, "The name of the API key that sent it, or that it had");
  command->add_option("--before", flags->before,
                      "Finished before this: 2026-11-20, 2026-11-20T10:00:00Z (UTC), an age such as 7d, or now");
  command->callback([flags] { run(*flags); });
}

}  // namespace slip::cli
