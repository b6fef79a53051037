// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

#include "cli/command.h"

namespace slip::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  slipstream completion bash > ~/.local/share/bash-completion/completions/slipstream\n"
    "  slipstream completion zsh > ~/.zfunc/_slipstream";

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// "TEXT:{kl,rkl,jsd,tv}" → kl, rkl, jsd, tv; empty for an option without a fixed set of values.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto from = type.find('{'), to = type.find('}', from);
  std::vector<std::string> choices;
  if (from == std::string::npos || to == std::string::npos) return choices;
  std::istringstream list(type.substr(from + 1, to - from - 1));
  for (std::string one; std::getline(list, one, ',');) choices.push_back(one);
  return choices;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// ---- bash: one function; `command` holds the subcommands so far, each preceded by a blank

// The words allowed next: subcommands, options, and the values of a positional argument.
std::string words_after(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* command : commands_of(app)) words.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    const auto more = option->get_positional() ? choices_of(*option) : names_of(*option);
    words.insert(words.end(), more.begin(), more.end());
  }
  return joined(words, " ");
}

struct BashCases {
  std::string commands, values, words;
};

void add_bash_cases(const CLI::App& app, const std::string& path, BashCases& cases) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || !takes_value(*option)) continue;
    std::vector<std::string> patterns;
    for (const auto& name : names_of(*option)) patterns.push_back("\"" + path + ":" + name + "\"");
    cases.values += "    " + joined(patterns, "|") + ") words=\"" + joined(choices_of(*option), " ") + "\" ;;\n";
  }
  cases.words += "      \"" + path + "\") words=\"" + words_after(app) + "\" ;;\n";
  for (const CLI::App* command : commands_of(app)) {
    const std::string deeper = path + " " + command->get_name();
    cases.commands += (cases.commands.empty() ? "\"" : "|\"") + deeper + "\"";
    add_bash_cases(*command, deeper, cases);
  }
}

// ---- zsh: one function per command

std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

std::string zsh_values(const CLI::Option& option) {
  const auto choices = choices_of(option);
  return choices.empty() ? ":value:_files" : ":value:(" + joined(choices, " ") + ")";
}

std::string zsh_arguments(const CLI::App& app) {
  std::string text;
  int place = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      text += " \\\n    '" + std::to_string(++place) + zsh_values(*option) + "'";
      continue;
    }
    const std::string about = "[" + zsh_text(option->get_description()) + "]";
    for (const auto& name : names_of(*option)) {
      text += " \\\n    '" + name + about + (takes_value(*option) ? zsh_values(*option) : "") + "'";
    }
  }
  return text;
}

void add_zsh_functions(const CLI::App& app, const std::string& function, std::string& script) {
  const auto commands = commands_of(app);
  if (commands.empty()) {
    script += function + "() {\n  _arguments" + zsh_arguments(app) + "\n}\n";
    return;
  }
  std::string described, cases;
  for (const CLI::App* command : commands) {
    described += " '" + command->get_name() + ":" + zsh_text(command->get_description()) + "'";
    cases += "      " + command->get_name() + ") " + function + "_" + command->get_name() + " ;;\n";
    add_zsh_functions(*command, function + "_" + command->get_name(), script);
  }
  script += function + "() {\n  local state line\n  local -a commands=(" + described + ")\n  _arguments -C" +
            zsh_arguments(app) + " \\\n    '1: :->command' '*:: :->arguments'\n  case $state in\n" +
            "    command) _describe command commands ;;\n    arguments) case $line[1] in\n" + cases +
            "    esac ;;\n  esac\n}\n";
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  BashCases cases;
  add_bash_cases(program, "", cases);
  return R"(# Completion of slipstream for bash, as `slipstream completion bash` prints it.
_slipstream() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
      )" +
         cases.commands +
         R"() command+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command:$before" in
)" + cases.values +
         R"(    *) case $command in
)" + cases.words +
         R"(    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o bashdefault -o default -F _slipstream slipstream
)";
}

std::string zsh_completion(const CLI::App& program) {
  std::string script = "#compdef slipstream\n# Completion for zsh, as `slipstream completion zsh` prints it.\n";
  add_zsh_functions(program, "_slipstream", script);
  return script +
         "if [ \"$funcstack[1]\" = _slipstream ]; then _slipstream \"$@\"; else compdef _slipstream slipstream; fi\n";
}

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand("completion", "Print a script that completes commands and options in a shell");
  command->footer(kFooter);
  command->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([shell, &app] { std::cout << (*shell == "zsh" ? zsh_completion(app) : bash_completion(app)); });
}

}  // namespace slip::cli
