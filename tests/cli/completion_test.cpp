// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "tests/checkpoints/temporary_folder.h"

namespace slip::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class Completion : public ::testing::Test {
 protected:
  Completion() { add_commands(app_); }

  // What bash offers after these words; the last one is being typed.
  std::vector<std::string> offers(const std::vector<std::string>& words) const {
    const auto script = folder_.write("completion.bash", bash_completion(app_));
    std::string line = "source " + script.string() + "; COMP_WORDS=(slipstream";
    for (const auto& word : words) line += " '" + word + "'";
    line += "); COMP_CWORD=" + std::to_string(words.size()) + "; _slipstream; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const auto runner = folder_.write("run.bash", line);
    FILE* pipe = ::popen(("bash --norc " + runner.string() + " 2>&1").c_str(), "r");
    std::vector<std::string> out;
    std::array<char, 512> text{};
    while (std::fgets(text.data(), text.size(), pipe) != nullptr) {
      std::string one = text.data();
      one.erase(one.find_last_not_of('\n') + 1);
      if (!one.empty()) out.push_back(one);
    }
    EXPECT_EQ(::pclose(pipe), 0);
    return out;
  }

  CLI::App app_;
  testing::TemporaryFolder folder_;
};

void expect_every_name(const CLI::App& app, const std::string& script) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_NE(script.find(command->get_name()), std::string::npos) << command->get_name();
    expect_every_name(*command, script);
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) EXPECT_NE(script.find("--" + name), std::string::npos) << name;
  }
}

TEST_F(Completion, EveryCommandAndOptionIsNamed) {
  for (const auto& script : {bash_completion(app_), zsh_completion(app_)}) expect_every_name(app_, script);
}

TEST_F(Completion, BashOffersCommandsOptionsAndValues) {
  EXPECT_THAT(offers({"se"}), ElementsAre("serve"));
  EXPECT_THAT(offers({"ledger", ""}), Contains("backup"));
  EXPECT_THAT(offers({"ledger", "backup", "--d"}), ElementsAre("--db"));
  EXPECT_THAT(offers({"serve", "--check"}), ElementsAre("--check-config"));
  EXPECT_THAT(offers({"serve", "--check"}), Not(Contains("--since")));
  EXPECT_THAT(offers({"warmup", "--loss", ""}), ElementsAre("kl", "rkl", "jsd", "tv"));
  EXPECT_THAT(offers({"report", "top"}), ElementsAre("topics"));
  EXPECT_THAT(offers({"report", "drift", "--format", "s"}), ElementsAre("svg"));
  EXPECT_THAT(offers({"completion", ""}), Contains("zsh"));
  EXPECT_THAT(offers({"serve", "--target", ""}), IsEmpty()) << "left to bash's own file names";
}

TEST_F(Completion, QuotesInZshAreBalanced) {
  std::string script = zsh_completion(app_);
  for (auto at = script.find("'\\''"); at != std::string::npos; at = script.find("'\\''")) script.erase(at, 4);
  EXPECT_EQ(std::count(script.begin(), script.end(), '\'') % 2, 0);
  EXPECT_EQ(script.rfind("#compdef slipstream", 0), 0U);
}

}  // namespace
}  // namespace slip::cli
