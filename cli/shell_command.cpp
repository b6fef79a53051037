// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_command.h"

#include <cstddef>

namespace slip::cli {

std::string shell_quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string resuming_command(const std::string& arguments) {
  std::string line;
  for (std::size_t at = 0; at < arguments.size();) {
    const std::string word(arguments.c_str() + at);
    at += word.size() + 1;
    if (word == "--force" || word.starts_with("--force=")) continue;
    line += (line.empty() ? "" : " ") + shell_quoted(word);
  }
  return line;
}

}  // namespace slip::cli
