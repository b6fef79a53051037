// SPDX-License-Identifier: Apache-2.0
#include "cli/output_path.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "ledger/database.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

// What a service keeps in its data directory besides the ledger.
constexpr std::array<std::string_view, 7> kKept = {"LOCK",      "control.sock", "drafts",         "replay",
                                                   "optimizer", "router.state", "step_times.json"};

}  // namespace

void refuse_kept_file_as_output(const fs::path& out, const fs::path& database, const std::string& option) {
  refuse_database_as_output(out, database, option);
  std::error_code none;
  const fs::path folder = fs::weakly_canonical(database, none).parent_path();
  if (none || !fs::exists(folder / "LOCK", none)) return;
  const fs::path place = fs::weakly_canonical(out, none).lexically_relative(folder);
  if (none || place.empty() || std::find(kKept.begin(), kKept.end(), place.begin()->string()) == kKept.end()) return;
  throw Error(ErrorCode::kInvalidArgument,
              option + " " + out.string() + " lies among the files that a service keeps in " + folder.string(),
              "name another file with " + option, option);
}

void refuse_input_as_output(const fs::path& out, const fs::path& input, const std::string& option) {
  std::error_code none;
  if (!fs::is_regular_file(out, none) || !fs::equivalent(out, input, none)) return;
  throw Error(ErrorCode::kInvalidArgument,
              option + " " + out.string() + " is " + input.string() + ", which is read and would be replaced",
              "name another file with " + option, option);
}

}  // namespace slip::cli
