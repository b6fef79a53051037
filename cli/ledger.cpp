// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/command.h"
#include "cli/output_path.h"
#include "common/counted.h"
#include "ledger/backup.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream ledger backup --db slipstream-data/ledger.db --out ledger-backup.db\n"
    "Go back to a copy, with the service stopped:\n"
    "  cp ledger-backup.db slipstream-data/ledger.db && rm -f slipstream-data/ledger.db-wal";
constexpr const char* kBackupFooter =
    "Examples:\n"
    "  slipstream ledger backup --db slipstream-data/ledger.db --out ledger-backup.db\n"
    "A service that writes at the same time goes on. Never copy the live file with cp: what its -wal holds would be\n"
    "missing. An existing file is not replaced; the copy is checked, and has its name only once it is whole.";

struct BackupFlags {
  std::filesystem::path database, out;
};

}  // namespace

void add_ledger(CLI::App& app) {
  auto* command = app.add_subcommand("ledger", "Maintain the ledger");
  command->require_subcommand(1);
  command->footer(kFooter);
  auto flags = std::make_shared<BackupFlags>();
  auto* backup = command->add_subcommand("backup", "Copy the ledger of a running service, consistent and checked");
  backup->footer(kBackupFooter);
  backup->add_option("--db", flags->database, "The ledger, <data-dir>/ledger.db")->required();
  backup->add_option("--out", flags->out, "The copy; it must not exist")->required();
  backup->callback([flags] {
    refuse_kept_file_as_output(flags->out, flags->database, "--out");
    const LedgerBackup copy = back_up_ledger(flags->database, flags->out);
    std::cout << flags->out.string() << ": " << counted(static_cast<std::uint64_t>(copy.requests), "request") << ", "
              << copy.bytes << " bytes, integrity ok\n";
  });
}

}  // namespace slip::cli
