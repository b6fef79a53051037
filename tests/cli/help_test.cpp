// SPDX-License-Identifier: Apache-2.0
// Every help has examples, and the examples are commands that the program takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "common/error.h"

namespace slip::cli {
namespace {

// Examples begin with the program's name, indented; a line that ends in a backslash goes on.
std::vector<std::string> examples_of(const CLI::App& command) {
  std::vector<std::string> examples;
  std::istringstream lines(command.get_footer());
  bool goes_on = false;
  for (std::string line; std::getline(lines, line);) {
    const bool begins = line.starts_with("  ") && line.find("slipstream ") != std::string::npos;
    if (!begins && !goes_on) continue;
    if (!goes_on) examples.emplace_back();
    goes_on = line.ends_with('\\');
    if (goes_on) line.pop_back();
    examples.back() += line + " ";
  }
  return examples;
}

// As a shell would, for what the examples use: blanks, single quotes, NAME=value before the program, > at the end.
std::vector<std::string> words_of(const std::string& example) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, some = false;
  for (const char c : example) {
    if (c == '\'') {
      quoted = !quoted;
      some = true;
    } else if (c == ' ' && !quoted) {
      if (some) words.push_back(std::exchange(word, {}));
      some = false;
    } else {
      word += c;
      some = true;
    }
  }
  const auto program = std::find(words.begin(), words.end(), "slipstream");
  const auto redirection = std::find(words.begin(), words.end(), ">");
  return program == words.end() ? words : std::vector<std::string>(program + 1, redirection);
}

// A word that no command takes is refused after everything else was found right and before the command would run.
constexpr const char* kUnexpected = "--no-such-option";

std::string fault_of(const std::string& example) {
  CLI::App app;
  add_commands(app);
  std::vector<std::string> words = words_of(example);
  words.emplace_back(kUnexpected);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ExtrasError& error) {
    const std::string expected = CLI::ExtrasError({kUnexpected}).what();
    return expected == error.what() ? "" : error.what();
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "it ran";
}

void check(const CLI::App& command) {
  SCOPED_TRACE(command.get_display_name());
  const auto examples = examples_of(command);
  EXPECT_FALSE(examples.empty()) << "its help has no example";
  const CLI::App* parent = command.get_parent();
  for (const auto& example : examples) {
    EXPECT_EQ(fault_of(example), "") << example;
    const bool names_it = example.find(" " + command.get_name() + " ") != std::string::npos;
    EXPECT_TRUE(parent == nullptr || names_it) << example;
  }
  for (const CLI::Option* option : command.get_options()) {
    EXPECT_NE(option->get_description(), "") << option->get_name() << " says nothing";
  }
  for (const CLI::App* sub : command.get_subcommands({})) check(*sub);
}

TEST(Help, EveryCommandHasExamplesThatParse) {
  CLI::App app;
  add_commands(app);
  EXPECT_GE(app.get_subcommands({}).size(), 8U);
  check(app);
}

TEST(Help, NegativeAnExampleWithAnOptionThatIsNotThereIsSeen) {
  EXPECT_NE(fault_of("  slipstream serve --prot 8000 "), "");
  EXPECT_NE(fault_of("  slipstream serv "), "");
  EXPECT_EQ(fault_of("  KEY=x slipstream generate --target x --max-tokens 3 --prompt 'a b' > out "), "");
}

// `--tenant "$TEAM" --before now` without TEAM purged the requests of all tenants.
TEST(Help, AnEmptyValueIsRefusedByItsOption) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"purge", "--data-dir", "d", "--tenant", "", "--before", "now"},
        {"purge", "--data-dir", "d", "--request", ""},
        {"serve", "--data-dir", ""},
        {"generate", "--target", "t", "--prompt", "p", "--draft", ""},
        {"generate", "--target", "t", "--prompt", ""},  // was told to give --prompt
        {"report", "topics", "--db", ""},
        {"inspect", ""}}) {
    CLI::App app;
    add_commands(app);
    const auto empty = std::find(arguments.rbegin(), arguments.rend(), "");
    try {
      app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
      ADD_FAILURE() << "it ran";
    } catch (const CLI::ValidationError& error) {
      EXPECT_NE(std::string(error.what()).find("must not be empty"), std::string::npos) << error.what();
      const std::string name = empty == arguments.rbegin() && arguments[0] == "inspect" ? "" : *std::next(empty);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

// The error did not say how to decode plainly, which draft = "" does in a configuration.
TEST(Help, AnEmptyDraftToServeIsToldTheFlag) {
  CLI::App app;
  add_commands(app);
  try {
    app.parse(std::vector<std::string>{"", "--draft", "serve"});
    ADD_FAILURE() << "it ran";
  } catch (const CLI::ValidationError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--no-speculation"));
  }
}

// 010 was 8, and 0x10 was 16.
TEST(Help, WholeNumbersAreDecimal) {
  const auto fault = [](const std::vector<std::string>& arguments) -> std::string {
    CLI::App app;
    add_commands(app);
    for (CLI::App* command : app.get_subcommands({})) command->callback([] {});
    try {
      app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return {};
  };
  for (const char* number : {"010", "0x10", "1_0", "1'0", "00", "1.0"}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"generate", "--target", "t", "--prompt", "p", "--max-tokens", number},
          {"generate", "--target", "t", "--prompt", "p", "--max-tokens", "3", "--stop-token", number},
          {"serve", "--k", number},
          {"report", "requests", "--db", "d", "--limit", number}}) {
      EXPECT_NE(fault(arguments).find(*std::prev(arguments.end(), 2)), std::string::npos) << fault(arguments);
    }
  }
  EXPECT_EQ(fault({"generate", "--target", "t", "--prompt", "p", "--max-tokens", "10", "--seed", "-1"}), "");
  EXPECT_EQ(fault({"serve", "--k", "0", "--port", "8000"}), "");
}

// The error said that a command or an option is required, but not which word was none.
TEST(Help, AMisspeltCommandOrOptionIsNamed) {
  const auto said = [](const std::vector<std::string>& arguments) {
    CLI::App app;
    add_commands(app);
    std::ostringstream out, err;
    try {
      app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::ParseError& error) {
      app.exit(error, out, err);
    }
    return err.str();
  };
  EXPECT_THAT(said({"frob", "--port", "8000"}),
              ::testing::StartsWith("A subcommand is required; there is no 'frob'\n"));
  EXPECT_THAT(said({"--prot"}), ::testing::HasSubstr("'--prot'"));
  EXPECT_THAT(said({"ledger", "backpu"}), ::testing::HasSubstr("'backpu'"));
  EXPECT_THAT(said({"generate", "--traget", "t"}), ::testing::HasSubstr("is required; there is no '--traget'"));
  EXPECT_THAT(said({"fr\x1bob"}), ::testing::HasSubstr("'fr\\x1bob'"));
  EXPECT_THAT(said({}), ::testing::StartsWith("A subcommand is required\n"));
}

TEST(Help, VersionAndHelpExitInOrder) {
  CLI::App app;
  add_commands(app);
  EXPECT_THROW(app.parse(std::vector<std::string>{"--version"}), CLI::CallForVersion);
  EXPECT_THROW(app.parse(std::vector<std::string>{"--help"}), CLI::CallForHelp);
}

}  // namespace
}  // namespace slip::cli
