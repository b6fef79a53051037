// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include "cli/command.h"
#include "cli/inspect/inspection.h"
#include "common/error.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream inspect checkpoints/demo/target\n"
    "  slipstream inspect slipstream-data\n"
    "  slipstream inspect slipstream-data/drafts --json\n"
    "  slipstream inspect slipstream-data/replay\n"
    "  slipstream inspect slipstream-data/ledger.db\n"
    "All weights are read once. Nothing is changed, and a service may be running. Exit status 1 when something is "
    "damaged.\n"
    "The newest replay segment may end in a record that a crash cut short: that is no damage. A segment that was cut\n"
    "between two records looks whole. Of a data directory, the states of optimizers and of the router are read too.";

}  // namespace

void add_inspect(CLI::App& app) {
  struct Flags {
    std::filesystem::path path;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  auto* command =
      app.add_subcommand("inspect", "Describe a model, draft, replay or ledger, and check that it is intact");
  command->footer(kFooter);
  command
      ->add_option("path", flags->path,
                   "A model or draft folder, a .safetensors file, a data directory, or its drafts, replay or ledger.db")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] {
    const Inspection found = inspect(flags->path);
    std::cout << (flags->json ? to_json(found) : to_text(found)) << std::flush;
    if (!found.faults.empty()) {
      throw Error(ErrorCode::kDataLoss, found.path + " is damaged, see above");
    }
    if (!found.unread.empty()) {
      throw Error(ErrorCode::kIo, found.path + " could not be read whole, see above",
                  "this says nothing of its state: mend the cause, and inspect it again");
    }
  });
}

}  // namespace slip::cli
