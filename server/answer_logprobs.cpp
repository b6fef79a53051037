// SPDX-License-Identifier: Apache-2.0
#include "server/answer_logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/model/utf8.h"

namespace slip {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNoLogprob = -9999.0;  // JSON has no infinity

double sendable(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kNoLogprob;
}

std::string token_text(const Tokenizer& tokenizer, std::int32_t id) {
  const auto bytes = tokenizer.token_bytes(id);
  return std::string(bytes.empty() ? tokenizer.token_content(id) : bytes);
}

// Bytes of a character's middle are none: each character counts where it begins.
std::size_t n_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Json chat_logprob(const Tokenizer& tokenizer, std::int32_t id, float logprob) {
  const std::string text = token_text(tokenizer, id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return {{"token", text}, {"logprob", sendable(logprob)}, {"bytes", std::move(bytes)}};
}

Json chat_logprobs(const AnswerIdentity& who, const AnswerPart& part) {
  Json content = Json::array();
  for (const auto& token : part.logprobs) {
    if (who.tokenizer->is_special(token.token)) continue;  // the end token is no part of the text
    Json entry = chat_logprob(*who.tokenizer, token.token, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const auto& other : token.top) {
      entry["top_logprobs"].push_back(chat_logprob(*who.tokenizer, other.id, other.logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// Names a token by its text, or by its bytes where these are no whole characters: as JSON, replaced, they would be one
// another's doubles.
std::string token_name(const std::string& text) {
  if (valid_utf8_prefix(text) == text.size()) return text;
  std::string name = "bytes:";
  for (const char c : text) {
    std::array<char, 5> hex{};
    std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    name += hex.data();
  }
  return name;
}

// The columns of OpenAI's completion form. The token itself is among the best whether it was or not.
struct Columns {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();

  void add(const Tokenizer& tokenizer, const TokenLogprobs& token, std::size_t offset) {
    const std::string name = token_name(token_text(tokenizer, token.token));
    const bool known = !std::isnan(token.logprob);
    Json top = Json::object();
    for (const auto& other : token.top) top[token_name(token_text(tokenizer, other.id))] = sendable(other.logprob);
    top[name] = sendable(token.logprob);
    tokens.push_back(name);
    logprobs.push_back(known ? Json(sendable(token.logprob)) : Json(nullptr));
    tops.push_back(known ? std::move(top) : Json(nullptr));
    offsets.push_back(offset);
  }
  Json json() && {
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(offsets)}};
  }
};

// Behind one token of the prompt. Its text is looked for in the echo, where it may be missing: a special token that the
// tokenizer put there, the space that some write before the first word.
TextPlace behind_prompt_token(const AnswerIdentity& who, std::string_view echo, TextPlace place, std::int32_t token) {
  const std::string text = token_text(*who.tokenizer, token);
  const std::string_view rest = echo.substr(place.echo_bytes), whole = text;
  std::size_t n = std::min(text.size(), rest.size());
  if (whole.starts_with(' ') && !rest.starts_with(whole) && rest.starts_with(whole.substr(1))) n = text.size() - 1;
  if (who.tokenizer->is_special(token) && !rest.starts_with(whole)) n = 0;
  place.echo_bytes += n;
  place.echo_characters += n_characters(rest.substr(0, n));
  return place;
}

// In the text as it is sent, an answer begins where the echo ends, wherever its tokens were thought to end.
TextPlace behind_answer_token(const AnswerIdentity& who, TextPlace place, std::int32_t token) {
  if (!who.tokenizer->is_special(token)) place.answer_characters += n_characters(token_text(*who.tokenizer, token));
  return place;
}

Json completion_logprobs(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part) {
  const std::string_view echo = echo_of(who, choice);
  Columns columns;
  TextPlace place = part.begins;
  for (const auto& token : part.prompt_logprobs) {
    columns.add(*who.tokenizer, token, place.echo_characters);
    place = behind_prompt_token(who, echo, place, token.token);
  }
  const std::size_t answer_begin = part.logprobs.empty() ? 0 : n_characters(echo);
  for (const auto& token : part.logprobs) {
    // The end token is no part of the text. Who counts a scored prompt's entries counts the answer's too.
    if (who.tokenizer->is_special(token.token) && !who.prompt_scored) continue;
    columns.add(*who.tokenizer, token, answer_begin + place.answer_characters);
    place = behind_answer_token(who, place, token.token);
  }
  return std::move(columns).json();
}

}  // namespace

Json logprobs_json(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part) {
  if (!who.logprobs) return nullptr;
  return who.endpoint == Endpoint::kChat ? chat_logprobs(who, part) : completion_logprobs(who, choice, part);
}

TextPlace place_behind(const AnswerIdentity& who, std::size_t choice, const AnswerPart& part) {
  TextPlace place = part.begins;
  for (const auto& token : part.prompt_logprobs) {
    place = behind_prompt_token(who, echo_of(who, choice), place, token.token);
  }
  for (const auto& token : part.logprobs) place = behind_answer_token(who, place, token.token);
  return place;
}

}  // namespace slip
