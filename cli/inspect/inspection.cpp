// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/inspection.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "distill/replay/segment.h"
#include "ledger/lost_ledger.h"
#include "ledger/report_parts.h"
#include "ledger/text_table.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqliteMagic = "SQLite format 3";

std::string cell_text(const Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  const auto* real = std::get_if<double>(&cell);
  if (real == nullptr) return "–";
  std::array<char, 40> digits{};
  std::snprintf(digits.data(), digits.size(), "%.4g", *real);
  return digits.data();
}

bool is_text(const Sheet& sheet, std::size_t column) {
  return std::any_of(sheet.rows.begin(), sheet.rows.end(),
                     [&](const auto& row) { return std::holds_alternative<std::string>(row[column]); });
}

std::string table_text(const Sheet& sheet) {
  std::vector<TextTable::Column> columns;
  for (std::size_t i = 0; i < sheet.columns.size(); ++i) {
    columns.push_back({sheet.columns[i], is_text(sheet, i) ? TextTable::Align::kLeft : TextTable::Align::kRight});
  }
  TextTable table(std::move(columns));
  for (const auto& row : sheet.rows) {
    std::vector<std::string> cells;
    for (const auto& cell : row) cells.push_back(cell_text(cell));
    table.add(std::move(cells));
  }
  return table.text(/*width=*/0, /*color=*/false);
}

std::string first_bytes(const fs::path& file) {
  std::array<char, 16> bytes{};
  std::ifstream in(file, std::ios::binary);
  in.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(in.gcount())};
}

// True for a dangling link too.
bool is_there(const fs::path& path) {
  return fs::symlink_status(path).type() != fs::file_type::not_found;
}

bool has_segments(const fs::path& folder) {
  const fs::directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return segment_number(entry.path().filename().string()).has_value();
  });
}

bool has_drafts(const fs::path& folder) {
  const fs::directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries),
                     [](const fs::directory_entry& entry) { return is_there(entry.path() / "CURRENT"); });
}

// Only reads the file: taking the lock would make a service fail that starts at the same time.
std::string lock_holder(const fs::path& folder, Inspection& found) {
  if (fs::is_symlink(fs::symlink_status(folder / "LOCK")) || !fs::exists(folder / "LOCK")) return "free";
  constexpr std::size_t kMostBytes = 64;
  std::string text;
  try {
    text = read_file(folder / "LOCK", kMostBytes);
  } catch (const Error& error) {
    found.add_error(error);
    return "unknown";
  }
  pid_t pid = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (parsed.ec != std::errc{} || pid <= 0) return "free";
  const bool runs = ::kill(pid, 0) == 0 || errno == EPERM;
  return runs ? "process " + std::to_string(pid) : "free";
}

std::string no_link(const fs::path& path) {
  return path.string() + " is a symbolic link, which no service follows";
}

void adopt(Inspection& whole, const std::string& part, const fs::path& path, Inspection (*look)(const fs::path&)) {
  if (!is_there(path)) return whole.add(part, std::string("none"));
  if (fs::is_symlink(fs::symlink_status(path))) {
    whole.faults.push_back(no_link(path));
    return;
  }
  try {
    Inspection found = look(path);
    const std::string prefix = part + " ";
    for (auto& [name, value] : found.facts) whole.add(prefix + name, std::move(value));
    for (auto& [name, sheet] : found.tables) whole.tables.emplace_back(prefix + name, std::move(sheet));
    for (auto& fault : found.faults) whole.faults.push_back(std::move(fault));
    for (auto& reason : found.unread) whole.unread.push_back(std::move(reason));
  } catch (const Error& error) {
    whole.add_error(error);
  }
}

void adopt_folder(Inspection& whole, const std::string& part, const fs::path& path,
                  Inspection (*look)(const fs::path&)) {
  const fs::file_type type = fs::symlink_status(path).type();
  const bool usable = type == fs::file_type::directory || type == fs::file_type::symlink || !is_there(path);
  if (usable) return adopt(whole, part, path, look);
  whole.faults.push_back(path.string() + " is not a directory, and no service starts with it");
}

Inspection inspect_data_directory(const fs::path& folder) {
  Inspection found{.kind = "data directory"};
  found.add("in use by", lock_holder(folder, found));
  constexpr fs::perms kByOthers = fs::perms::group_write | fs::perms::others_write;
  if ((fs::status(folder).permissions() & kByOthers) != fs::perms::none) {
    found.faults.push_back(folder.string() + " can be written by others, and no service starts with it");
  }
  adopt(found, "ledger", folder / "ledger.db", inspect_ledger);
  if (auto lost = lost_ledger(folder)) found.faults.push_back(std::move(*lost));
  if (fs::is_symlink(fs::symlink_status(folder / "LOCK"))) found.faults.push_back(no_link(folder / "LOCK"));
  adopt_folder(found, "drafts", folder / "drafts", inspect_draft_store);
  adopt_folder(found, "replay", folder / "replay", inspect_replay);
  adopt_folder(found, "optimizer", folder / "optimizer", inspect_optimizer_states);
  adopt(found, "router", folder / "router.state", inspect_router_state);
  adopt(found, "step times", folder / "step_times.json", inspect_step_times);
  return found;
}

Inspection inspect_folder(const fs::path& folder) {
  if (fs::exists(folder / "config.json")) return inspect_model(folder);
  if (is_there(folder / "ledger.db") || is_there(folder / "LOCK")) return inspect_data_directory(folder);
  if (has_segments(folder)) return inspect_replay(folder);
  if (has_drafts(folder)) return inspect_draft_store(folder);
  throw Error(ErrorCode::kInvalidArgument, folder.string() + " is nothing that Slipstream knows",
              "name a model or draft folder (with config.json), a data directory, or its drafts, replay or ledger.db",
              "path");
}

Inspection inspect_file(const fs::path& file) {
  if (first_bytes(file).starts_with(kSqliteMagic)) return inspect_ledger(file);
  if (segment_number(file.filename().string())) return inspect_replay(file);
  if (file.extension() == ".safetensors") return inspect_safetensors(file);
  throw Error(ErrorCode::kInvalidArgument, file.string() + " is nothing that Slipstream knows",
              "name a ledger, a .safetensors file, a replay segment, or a folder", "path");
}

// "kv heads" → kv_heads, which needs no quotes in jq.
std::string json_key(const std::string& name) {
  std::string key;
  for (const char c : name) key += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return key;
}

}  // namespace

Inspection inspect(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) {
    throw Error(ErrorCode::kNotFound, "there is nothing at " + path.string(), {}, "path");
  }
  if (failed) throw Error(ErrorCode::kIo, "cannot look at " + path.string() + ": " + failed.message(), {}, "path");
  if (status.type() != fs::file_type::directory && status.type() != fs::file_type::regular) {
    throw Error(ErrorCode::kInvalidArgument, path.string() + " is neither a file nor a folder", {}, "path");
  }
  try {
    Inspection found = status.type() == fs::file_type::directory ? inspect_folder(path) : inspect_file(path);
    found.path = path.string();
    return found;
  } catch (const fs::filesystem_error& error) {
    const fs::path& at = error.path1().empty() ? path : error.path1();
    throw Error(ErrorCode::kIo, "cannot read " + at.string() + ": " + error.code().message(), {}, "path");
  }
}

std::string to_text(const Inspection& found) {
  std::size_t longest = 0;
  for (const auto& [name, value] : found.facts) longest = std::max(longest, shown_width(name));
  std::string text = found.kind + " " + printable(found.path) + "\n";
  for (const auto& [name, value] : found.facts) {
    text += "  " + name + std::string(longest + 2 - shown_width(name), ' ') + cell_text(value) + "\n";
  }
  for (const auto& [name, sheet] : found.tables) text += "\n" + name + "\n" + table_text(sheet);
  for (const auto& fault : found.faults) text += "FAULT: " + printable(fault) + "\n";
  for (const auto& reason : found.unread) text += "NOT READ: " + printable(reason) + "\n";
  return text;
}

std::string to_json(const Inspection& found) {
  nlohmann::ordered_json out = {{"kind", found.kind}, {"path", found.path}};
  out["facts"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : found.facts) out["facts"][json_key(name)] = slip::to_json(value);
  for (const auto& [name, sheet] : found.tables) out[json_key(name)] = slip::to_json(sheet);
  out["faults"] = found.faults;
  out["unread"] = found.unread;
  return out.dump(/*indent=*/1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace slip::cli
