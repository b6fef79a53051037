// SPDX-License-Identifier: Apache-2.0
#include "ledger/lost_ledger.h"

#include <system_error>

namespace slip {
namespace {

namespace fs = std::filesystem;

bool holds_anything(const fs::path& folder) {
  std::error_code none;
  return fs::directory_iterator(folder, none) != fs::directory_iterator();
}

}  // namespace

std::optional<std::string> lost_ledger(const fs::path& data_dir) {
  const fs::path file = data_dir / "ledger.db";
  std::error_code none;
  const bool is_missing = fs::symlink_status(file, none).type() == fs::file_type::not_found;
  if (!is_missing && (fs::file_size(file, none) != 0 || none)) return std::nullopt;
  if (!holds_anything(data_dir / "replay") && !holds_anything(data_dir / "drafts")) return std::nullopt;
  return file.string() + (is_missing ? " is missing" : " is empty") + ", though drafts or replay are there";
}

}  // namespace slip
