// SPDX-License-Identifier: Apache-2.0
#include "bench/common/result.h"

#include <iostream>

#include "common/error.h"

namespace slip::bench {

int show_result(const std::string& name, bool as_json, const std::function<nlohmann::json()>& run,
                const std::function<void(const nlohmann::json&)>& print_table) {
  try {
    const auto result = run();
    if (as_json) {
      std::cout << result.dump(2) << "\n";
    } else {
      print_table(result);
    }
    return 0;
  } catch (const Error& error) {
    std::cerr << name << ": " << error.message() << "\n";
    if (!error.hint().empty()) std::cerr << "hint: " << error.hint() << "\n";
    return 2;
  }
}

}  // namespace slip::bench
