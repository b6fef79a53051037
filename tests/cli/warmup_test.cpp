// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "cli/command.h"
#include "cli/target_worker.h"
#include "common/error.h"
#include "distill/trainer/draft_trainer.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/cli/command_output.h"

namespace slip::cli {
namespace {

const std::string kDemo = std::string(SLIPSTREAM_SOURCE_DIR) + "/checkpoints/demo/";

// What a warm-up that never gets to its data says; empty when it gets there.
std::string refusal(const std::string& more) {
  CLI::App app;
  add_warmup(app);
  const auto out = std::filesystem::path(::testing::TempDir()) / "never";
  try {
    app.parse("warmup --target " + kDemo + "target --draft " + kDemo + "draft --data /nowhere.jsonl --out " +
              out.string() + " " + more);
  } catch (const Error& error) {
    return error.param();
  }
  return "";
}

// It took all of the machine's memory, until the kernel ended it.
TEST(Warmup, ADraftThatTheMachineCannotTrainIsRefusedByItsSize) {
  const slip::testing::TemporaryFolder folder;
  const auto shape = folder.write("draft.toml", "hidden = 16384\nlayers = 500\nffn = 65536\nheads = 128\n");
  CLI::App app;
  add_warmup(app);
  try {
    app.parse("warmup --target " + kDemo + "target --draft-config " + shape.string() + " --data /nowhere.jsonl --out " +
              (folder.path() / "out").string());
    FAIL() << "it began";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge) << error.message();
    EXPECT_NE(error.message().find("billion parameters"), std::string::npos) << error.message();
  }
}

// It replaced the target by the draft.
TEST(Warmup, ItsOwnModelsAreNoOutcome) {
  const slip::testing::TemporaryFolder folder;
  std::filesystem::copy(kDemo + "draft", folder.path() / "draft");
  const auto prompts = folder.write("p.jsonl", "{\"prompt\":\"x\"}\n");
  CLI::App app;
  add_warmup(app);
  try {
    app.parse("warmup --force --target " + kDemo + "target --draft " + (folder.path() / "draft").string() + " --data " +
              prompts.string() + " --out " + (folder.path() / "draft").string() + "/");
    FAIL() << "it began";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("is the model that the draft is made from"), std::string::npos) << error.message();
  }
}

// It ended with the figures alone, and left the reader to find how a draft is served.
TEST(Warmup, ItEndsWithTheCommandThatServesTheDraft) {
  const slip::testing::TemporaryFolder folder;
  const auto prompts = folder.write("p.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n");
  const std::string out = (folder.path() / "new draft").string();
  const std::string said = command_output({"warmup", "--target", kDemo + "target", "--draft", kDemo + "draft", "--data",
                                           prompts.string(), "--out", out, "--steps", "1", "--max-tokens", "2"});
  EXPECT_NE(said.find("\nserve it with: slipstream serve --target " + kDemo + "target --draft '" + out + "'\n"),
            std::string::npos)
      << said;
}

template <class Ask>
bool is_there(const Ask& ask) {
  try {
    ask();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// As for generate and serve: without CUDA in the build, or without a device, the flag's key is named.
TEST(Warmup, ADeviceThatIsNotThereIsRefusedByItsKey) {
  EXPECT_NE(refusal("--device cpu --learning-device cpu"), "device");
  EXPECT_EQ(refusal("--device gpu"), "device");
  EXPECT_EQ(refusal("--device cuda --dtype float32"), "device");
  EXPECT_THROW(refusal("--learning-device gpu"), CLI::ValidationError);
  if (!is_there([] { open_target_device(Device::kCuda); })) {
    EXPECT_EQ(refusal("--device cuda"), "device");
  }
  if (!is_there([] { check_training_device(TrainingDevice::kCuda); })) {
    EXPECT_EQ(refusal("--learning-device cuda"), "learning.device");
  }
}

TEST(Warmup, SeedAndThreadsAreChecked) {
  EXPECT_EQ(refusal("--threads 100000"), "--threads");
  EXPECT_THROW(refusal("--seed 18446744073709551616"), CLI::ValidationError);
}

}  // namespace
}  // namespace slip::cli
