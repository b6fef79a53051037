// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <span>
#include <string>

#include "cli/inspect/inspection.h"
#include "cli/step_times_file.h"
#include "common/crc32c.h"
#include "common/error.h"
#include "common/file.h"
#include "distill/trainer_lineage.h"
#include "router/router_state_file.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostStateBytes = std::uint64_t{16} << 30;  // a draft of a billion parameters with AdamW

// Checks the checksum at the end of every state. Its shape and optimizer can be checked only by the service.
void check_optimizer_state(const fs::path& file) {
  if (fs::is_symlink(fs::symlink_status(file))) {
    throw Error(ErrorCode::kPermission, file.string() + " is a symbolic link");
  }
  const std::string content = read_file(file, kMostStateBytes);
  std::uint32_t crc = 0;
  if (content.size() <= sizeof crc) throw Error(ErrorCode::kDataLoss, file.string() + " is torn");
  const auto body = std::as_bytes(std::span(content)).first(content.size() - sizeof crc);
  std::memcpy(&crc, content.data() + body.size(), sizeof crc);
  if (crc32c(body) != crc) throw Error(ErrorCode::kDataLoss, file.string() + " fails its checksum");
}

// Also checks that the state is there. A crash may leave a state without its lineage, but not this.
void check_lineage(const fs::path& file) {
  read_lineage(file);
  const fs::path state = fs::path(file).replace_extension(".opt");
  if (!fs::exists(fs::symlink_status(state))) throw Error(ErrorCode::kDataLoss, state.string() + " is missing");
}

}  // namespace

Inspection inspect_optimizer_states(const fs::path& folder) {
  Inspection found{.kind = "optimizer states"};
  std::int64_t states = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool is_lineage = entry.path().extension() == ".lineage";
    if (!is_lineage && entry.path().extension() != ".opt") continue;
    states += is_lineage ? 0 : 1;
    try {
      if (is_lineage) {
        check_lineage(entry.path());
      } else {
        check_optimizer_state(entry.path());
      }
    } catch (const Error& error) {
      found.add_error(
          Error(error.code(), "optimizer state " + error.message() +
                                  (error.code() == ErrorCode::kIo ? "" : "; a service begins this optimizer afresh")));
    }
  }
  found.add("states", states);
  return found;
}

Inspection inspect_router_state(const fs::path& file) {
  Inspection found{.kind = "router state"};
  const RouterState state = read_router_state(file);
  found.add("topics", static_cast<std::int64_t>(state.topics.size()));
  found.add("lessons", static_cast<std::int64_t>(state.classifier.lessons));
  return found;
}

Inspection inspect_step_times(const fs::path& file) {
  Inspection found{.kind = "step times"};
  found.add("row counts", static_cast<std::int64_t>(read_step_times(file).curves.unleased.value().ratios.size()));
  return found;
}

}  // namespace slip::cli
