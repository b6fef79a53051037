// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/version.h"
#include "common/escape_controls.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream serve -c configs/default.toml --port 8000\n"
    "  slipstream generate --target checkpoints/demo/target --prompt 'SELECT' --max-tokens 32\n"
    "  slipstream report topics --db slipstream-data/ledger.db\n"
    "Each command has its own: slipstream serve --help";

// Refuses empty option values, which scripts pass when a variable is unset. An empty --tenant would make a purge delete
// every tenant's data.
void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_expected_max() == 0) continue;
    option->check([](const std::string& value) { return std::string(value.empty() ? "must not be empty" : ""); });
  }
  for (CLI::App* sub : command.get_subcommands({})) refuse_empty_values(*sub);
}

// Refuses numbers that CLI11 reads unexpectedly: 010 as octal, 0x10 as hexadecimal, 1_000 and 1'000 as a thousand.
std::string decimal_fault(const std::string& text) {
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  const bool all_digits = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (all_digits && (digits == "0" || digits.front() != '0')) return {};
  return "'" + text.substr(0, 64) + "' is no whole number in decimal digits, without leading zeros";
}

void read_whole_numbers_as_decimal(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT") || type.starts_with("UINT")) option->check(decimal_fault);
  }
  for (CLI::App* sub : command.get_subcommands({})) read_whole_numbers_as_decimal(*sub);
}

// CLI11 reports missing options before unknown words. An unknown word is often the cause: a misspelt command, or a
// misspelt required option.
std::string failure_text(const CLI::App* app, const CLI::Error& error) {
  std::string text = error.what();
  const std::vector<std::string> unexpected = app->remaining(/*recurse=*/true);
  if (error.get_name() == "RequiredError" && !unexpected.empty()) text += "; there is no '" + unexpected.front() + "'";
  return CLI::FailureMessage::simple(app, CLI::Error(error.get_name(), escape_controls(text)));
}

}  // namespace

void add_commands(CLI::App& app) {
  app.name("slipstream");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.failure_message(failure_text);
  app.footer(kFooter);
  add_serve(app);
  add_generate(app);
  add_warmup(app);
  add_report(app);
  add_inspect(app);
  add_ledger(app);
  add_purge(app);
  add_profile(app);
  add_simulate(app);
  add_completion(app);
  add_version(app);
  refuse_empty_values(app);
  read_whole_numbers_as_decimal(app);
}

}  // namespace slip::cli
