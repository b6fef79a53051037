// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace slip::bench {

// One line of progress on stderr, redrawn; nothing where stderr is no terminal. An empty text ends the line.
void show_progress(const std::string& text);

// The end of every benchmark's main: runs it and prints its result as JSON or by `print_table`. Returns the exit
// status; an Error becomes one line with its hint and status 2.
int show_result(const std::string& name, bool as_json, const std::function<nlohmann::json()>& run,
                const std::function<void(const nlohmann::json&)>& print_table);

}  // namespace slip::bench
