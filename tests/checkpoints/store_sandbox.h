// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>

#include "checkpoints/draft_store.h"
#include "common/error.h"
#include "common/fail_point.h"

namespace slip {

// Uses a file system in memory if there is one: these tests kill processes, not machines, and hundreds of real fsyncs
// take long.
inline std::filesystem::path quick_temporary_folder() {
  const std::filesystem::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

// A store in a private folder, and drafts whose weights are a few bytes of text, since the store never reads them.
class StoreSandbox : public ::testing::Test {
 protected:
  StoreSandbox() {
    std::string name = (quick_temporary_folder() / "slipstream-store-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    root_ = folder_ / "drafts";
  }
  ~StoreSandbox() override {
    arm_fail_point("");
    std::filesystem::remove_all(folder_);
  }

  static void write(const std::filesystem::path& file, const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::filesystem::path stage(DraftStore& store, const std::string& draft, const std::string& weights) {
    const auto staged = store.staging_folder(draft);
    write(staged / "config.json", "{}");
    write(staged / "model.safetensors", weights);
    return staged;
  }
  static DraftMeta publish(DraftStore& store, const std::string& draft, const std::string& weights,
                           std::uint64_t parent = 0) {
    DraftMeta meta;
    meta.draft = meta.topic = draft;
    meta.parent = parent;
    meta.reason = "canary";
    return store.publish(stage(store, draft, weights), meta);
  }
  // Publishes a version of "sql" for each of `days`, which count from a year ago: the machine's date is a year ahead.
  void publish_a_year_ago(const RetentionPolicy& policy, std::initializer_list<std::int64_t> days) const {
    constexpr std::int64_t kDayUs = std::int64_t{24} * 3600 * 1'000'000;
    DraftStore store(root_, policy);
    for (const std::int64_t day : days) {
      DraftMeta meta = publish(store, "sql", "weights");
      meta.created_us += (day - 365) * kDayUs;
      write(root_ / "sql" / version_name(meta.version) / "meta.json", to_json(meta));
    }
  }
  template <class Action>
  static std::optional<ErrorCode> code_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error.code();
    }
    return std::nullopt;
  }

  std::filesystem::path folder_, root_;
};

}  // namespace slip
