// SPDX-License-Identifier: Apache-2.0
// A config.json, and after a NUL byte a generation_config.json.
#include <string>

#include "checkpoints/model_config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = slip::as_text(data, size);
  const auto border = text.find('\0');
  const std::string config(text.substr(0, border));
  const std::string generation(border == std::string_view::npos ? std::string_view{} : text.substr(border + 1));
  slip::accepts([&] {
    const auto read = slip::parse_model_config(config, generation, "config.json");
    const auto again = slip::parse_model_config(slip::to_config_json(read), "", "written");
    SLIP_CHECK(read.same_shape(again), "what is written is what was read");
  });
  return 0;
}
