// SPDX-License-Identifier: Apache-2.0
#include "server/openai/token_call.h"

#include <nlohmann/json.hpp>
#include <span>

#include "checkpoints/json_document.h"
#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "server/openai/message.h"
#include "server/openai/request_fields.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxValues = std::size_t{1} << 20;

void check_object(const json& parsed, std::span<const std::string_view> fields) {
  if (!parsed.is_object()) throw Error(ErrorCode::kInvalidArgument, "the request body must be a JSON object");
  check_members(parsed, "", fields);
}

}  // namespace

TokenizeCall parse_tokenize(std::string_view body) {
  const JsonDocument document(parse_strict_json(body, "request body", {.max_values = kMaxValues}));
  const json& parsed = document.root();
  check_object(parsed, kTokenizeFields);
  const RequestFields fields(parsed);
  TokenizeCall call;
  call.model = fields.text("model");
  call.prompt = fields.text("prompt");
  const json* messages = fields.find("messages");
  if (call.prompt.has_value() == (messages != nullptr)) {
    refuse_field(call.prompt ? "messages" : "prompt",
                 call.prompt ? "and 'prompt' exclude each other" : "or 'messages' is missing");
  }
  if (messages != nullptr) call.messages = parse_messages(*messages);
  call.add_special_tokens = fields.boolean("add_special_tokens").value_or(call.prompt.has_value());
  const auto generation = fields.boolean("add_generation_prompt");
  if (generation && call.prompt) refuse_field("add_generation_prompt", "is only allowed with 'messages'");
  call.add_generation_prompt = generation.value_or(true);
  call.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  return call;
}

DetokenizeCall parse_detokenize(std::string_view body) {
  const JsonDocument document(parse_strict_json(body, "request body", {.max_values = kMaxValues}));
  const json& parsed = document.root();
  check_object(parsed, kDetokenizeFields);
  const RequestFields fields(parsed);
  DetokenizeCall call;
  call.model = fields.text("model");
  const json* tokens = fields.find("tokens");
  if (tokens == nullptr) refuse_field("tokens", "is missing");
  call.tokens = read_token_ids(*tokens, "tokens");
  return call;
}

std::string text_with_specials(const std::shared_ptr<const Tokenizer>& tokenizer,
                               const std::vector<std::int32_t>& ids) {
  using Start = StreamDecoder::Start;
  using Stop = StreamDecoder::Stop;
  std::string text;
  std::size_t begin = 0;  // of the run of ordinary tokens, decoded together, since a character may span tokens
  // Only the first and the last token of all are at the text's ends, and special tokens count.
  const auto append_run = [&](std::size_t end) {
    StreamDecoder decoder(tokenizer, begin == 0 ? Start::kText : Start::kMiddle,
                          end == ids.size() ? Stop::kText : Stop::kMiddle);
    for (std::size_t i = begin; i < end; ++i) text += decoder.push(ids[i]);
    text += decoder.finish();
    begin = end + 1;
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= tokenizer->vocab_size()) {
      refuse_field("tokens[" + std::to_string(i) + "]",
                   "is not below the vocabulary's size, " + std::to_string(tokenizer->vocab_size()));
    }
    if (!tokenizer->is_special(ids[i])) continue;
    append_run(i);
    text += tokenizer->token_content(ids[i]);
  }
  append_run(ids.size());
  return text;
}

}  // namespace slip
