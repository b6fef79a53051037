// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/version.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream serve -c configs/default.toml --port 8000\n"
    "  slipstream generate --target checkpoints/demo/target --prompt 'SELECT' --max-tokens 32\n"
    "  slipstream report topics --db slipstream-data/ledger.db\n"
    "Each command has its own: slipstream serve --help";

}  // namespace

void add_commands(CLI::App& app) {
  app.name("slipstream");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer(kFooter);
  add_serve(app);
  add_generate(app);
  add_warmup(app);
  add_report(app);
  add_inspect(app);
  add_ledger(app);
  add_purge(app);
  add_completion(app);
  add_version(app);
}

}  // namespace slip::cli
