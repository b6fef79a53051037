// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "ledger/sheet.h"

namespace slip::cli {

// The findings at a path. All text comes from untrusted files.
struct Inspection {
  std::string kind;  // "checkpoint", "draft", "draft store", "safetensors", "replay", "ledger", "data directory"
  std::string path;
  std::vector<std::pair<std::string, Cell>> facts;
  std::vector<std::pair<std::string, Sheet>> tables;
  std::vector<std::string> faults;  // damaged or missing parts, each naming its file
  std::vector<std::string> unread;  // reasons why parts could not be read now: a full disk, a limit

  void add_error(const Error& error) { (error.code() == ErrorCode::kIo ? unread : faults).push_back(error.message()); }
  void add(const std::string& name, Cell value) { facts.emplace_back(name, std::move(value)); }
};

// Determines the kind of file or folder at `path` by its content and reads it without changes, also beside a running
// service. Partly damaged data is described as far as possible, with its faults. Error{kNotFound | kInvalidArgument}
// when there is nothing, or nothing of ours.
Inspection inspect(const std::filesystem::path& path);

Inspection inspect_model(const std::filesystem::path& folder);        // a Hugging Face folder or a draft's version
Inspection inspect_safetensors(const std::filesystem::path& file);    // a single weight file
Inspection inspect_draft_store(const std::filesystem::path& folder);  // <data>/drafts
Inspection inspect_replay(const std::filesystem::path& path);         // <data>/replay, or one segment
Inspection inspect_ledger(const std::filesystem::path& file);
Inspection inspect_optimizer_states(const std::filesystem::path& folder);  // <data>/optimizer
Inspection inspect_router_state(const std::filesystem::path& file);        // <data>/router.state; Error{kDataLoss}
Inspection inspect_step_times(const std::filesystem::path& file);          // <data>/step_times.json

std::string to_text(const Inspection& found);
std::string to_json(const Inspection& found);

}  // namespace slip::cli
