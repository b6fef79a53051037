// SPDX-License-Identifier: Apache-2.0
// A folder with a tiny target that has the demo's tokenizer, and prompts for the warm-up of a tiny draft.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "distill/warmup/warmup.h"

namespace slip::testing {

// Requests a stop after `polls` calls of stop_requested(); −1: never. Keeps the reported progress and notes.
class StopAt final : public WarmupObserver {
 public:
  explicit StopAt(int polls = -1) : polls_left_(polls) {}
  void on_progress(const WarmupProgress& progress) override {
    last = progress;
    phases.insert(progress.phase);
  }
  void on_note(const std::string& line) override { notes.push_back(line); }
  bool stop_requested() override { return polls_left_ >= 0 && polls_left_-- <= 0; }

  WarmupProgress last;
  std::set<WarmupPhase> phases;
  std::vector<std::string> notes;

 private:
  int polls_left_;
};

class WarmupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("warmup-") + info->name() + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "target");
    make_target();
    write("data.jsonl", prompts(14, /*with_response=*/true));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The demo's tokenizer and context on a model that is small enough to answer in microseconds.
  void make_target() {
    const std::filesystem::path demo = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
    ModelConfig config = load_model_config(demo);
    config.hidden_size = 16;
    config.intermediate_size = 16;
    config.n_layers = 1;
    config.n_heads = 2;
    config.n_kv_heads = 1;
    config.head_dim = 8;
    DraftTrainer(config, 42, {}).export_draft(folder_ / "target");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
      std::filesystem::copy_file(demo / name, folder_ / "target" / name);
    }
  }

  static std::string prompts(int n, bool with_response) {
    std::string lines;
    for (int i = 0; i < n; ++i) {
      lines += R"({"prompt": "What is )" + std::to_string(i) + R"( and )" + std::to_string(i * i) + R"(?")";
      lines += with_response ? R"(, "response": "It is )" + std::to_string(i + i * i) + "\"}\n" : "}\n";
    }
    return lines;
  }

  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  WarmupOptions options(const std::string& out) const {
    WarmupOptions options;
    options.target = folder_ / "target";
    options.data = {folder_ / "data.jsonl"};
    options.out = folder_ / out;
    options.shape = {.hidden = 8, .layers = 1, .ffn = 8, .heads = 2, .kv_heads = 1};
    options.steps = 6;
    options.batch = 4;
    options.max_tokens = 6;
    options.dtype = Dtype::kFloat32;
    return options;
  }

  std::string weights(const std::string& out) const {
    return read_file(folder_ / out / "model.safetensors", std::uint64_t{1} << 30);
  }

  ErrorCode refused(const WarmupOptions& wrong, std::string* message = nullptr) {
    StopAt observer;
    try {
      run_warmup(wrong, observer);
    } catch (const Error& error) {
      if (message != nullptr) *message = error.message() + " | " + error.param();
      return error.code();
    }
    ADD_FAILURE() << "accepted";
    return ErrorCode::kInternal;
  }

  std::filesystem::path folder_;
};

}  // namespace slip::testing
