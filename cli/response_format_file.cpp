// SPDX-License-Identifier: Apache-2.0
#include "cli/response_format_file.h"

#include <nlohmann/json.hpp>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"
#include "server/openai/response_format.h"

namespace slip::cli {

namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 20;

// The most likely mistake is a bare schema.
std::string hint_for(const nlohmann::json& content) {
  if (!content.is_object() || content.contains("json_schema")) return {};
  return R"(a schema stands in {"type":"json_schema","json_schema":{"name":"answer","schema":{…}}})";
}

}  // namespace

std::shared_ptr<const Grammar> read_response_format_file(const std::string& asked) {
  if (asked == "json_object") return json_object_grammar();
  const std::string text = read_file(asked, kMostFileBytes);
  const nlohmann::json content = parse_strict_json(text, asked);
  if (content.is_null()) throw Error(ErrorCode::kInvalidArgument, asked + ": 'response_format' must be an object");
  const nlohmann::json body = {{"response_format", content}};
  try {
    return GrammarCache().grammar(read_response_format(RequestFields(body), R"({"response_format":)" + text + "}"));
  } catch (const Error& error) {
    const std::string hint = error.hint().empty() ? hint_for(content) : error.hint();
    throw Error(error.code(), asked + ": " + error.message(), hint, error.param());
  }
}

}  // namespace slip::cli
