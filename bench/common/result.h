// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace slip::bench {

// Runs a benchmark and prints its result as JSON or by `print_table`; every benchmark's main ends with it. Returns the
// exit status; an Error is printed with its hint and gives status 2.
int show_result(const std::string& name, bool as_json, const std::function<nlohmann::json()>& run,
                const std::function<void(const nlohmann::json&)>& print_table);

}  // namespace slip::bench
