// SPDX-License-Identifier: Apache-2.0
#include "server/openai/prompt_field.h"

#include <nlohmann/json.hpp>
#include <string>

#include "server/openai/request_fields.h"

namespace slip {
namespace {

using nlohmann::json;

Prompt read_one(const json& value, const std::string& field) {
  if (!value.is_array() && !value.is_string()) {
    refuse_field(field, "must be a string, a list of token ids, or a list of one of these kinds");
  }
  if (value.empty()) refuse_field(field, "must not be empty");
  if (value.is_array()) return read_token_ids(value, field);
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty()) refuse_field(field, "must not be empty");
  return text;
}

}  // namespace

std::vector<Prompt> read_prompt_field(const json& value) {
  const bool is_list = value.is_array() && !value.empty() && !value.front().is_number();
  if (!is_list) return {read_one(value, "prompt")};
  std::vector<Prompt> prompts;
  for (const json& one : value) {
    const std::string field = "prompt[" + std::to_string(prompts.size()) + "]";
    if (one.is_array() != value.front().is_array()) {
      refuse_field(field,
                   "must be a " + std::string(one.is_array() ? "string" : "list of token ids") + " as prompt[0] is");
    }
    prompts.push_back(read_one(one, field));
  }
  return prompts;
}

}  // namespace slip
