// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace slip {
namespace {

constexpr double kNoLogprob = -9999.0;  // JSON has no infinity

double sendable(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kNoLogprob;
}

std::string token_text(const Tokenizer& tokenizer, std::int32_t id) {
  const auto bytes = tokenizer.token_bytes(id);
  return std::string(bytes.empty() ? tokenizer.token_content(id) : bytes);
}

// Counts the characters that begin in the text; continuation bytes count as none.
std::size_t n_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Writes the members of one token; the object stays open.
void open_chat_logprob(JsonText& json, const Tokenizer& tokenizer, std::int32_t id, float logprob) {
  const std::string text = token_text(tokenizer, id);
  json.begin_object();
  json.member("token", text);
  json.member("logprob", sendable(logprob));
  json.key("bytes");
  json.begin_array();
  for (const char c : text) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.end_array();
}

void write_chat_logprobs(JsonText& json, const AnswerIdentity& who, const AnswerPart& part) {
  json.begin_object();
  json.key("content");
  json.begin_array();
  for (const auto& token : part.logprobs) {
    if (who.tokenizer->is_special(token.token)) continue;  // the end token is not part of the text
    open_chat_logprob(json, *who.tokenizer, token.token, token.logprob);
    json.key("top_logprobs");
    json.begin_array();
    for (const auto& other : token.top) {
      open_chat_logprob(json, *who.tokenizer, other.id, other.logprob);
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.member("refusal", nullptr);
  json.end_object();
}

// A token's text; its bytes if they are not valid UTF-8, since several such tokens would read alike after replacement.
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

// The columns of OpenAI's completion form. The chosen token is always listed among the best.
class Columns {
 public:
  Columns() {
    for (JsonText* column : {&tokens_, &logprobs_, &tops_, &offsets_}) column->begin_array();
  }

  void add(const Tokenizer& tokenizer, const TokenLogprobs& token, std::size_t offset) {
    const std::string name = token_name(token_text(tokenizer, token.token));
    tokens_.value(name);
    offsets_.value(offset);
    if (std::isnan(token.logprob)) {
      logprobs_.value(nullptr);
      tops_.value(nullptr);
      return;
    }
    logprobs_.value(sendable(token.logprob));
    std::vector<std::pair<std::string, double>> top;
    for (const auto& other : token.top) {
      set(top, token_name(token_text(tokenizer, other.id)), sendable(other.logprob));
    }
    set(top, name, sendable(token.logprob));
    tops_.begin_object();
    for (const auto& [other, logprob] : top) tops_.member(other, logprob);
    tops_.end_object();
  }

  void write(JsonText& json) && {
    for (JsonText* column : {&tokens_, &logprobs_, &tops_, &offsets_}) column->end_array();
    json.begin_object();
    json.key("tokens");
    json.json(std::move(tokens_).take());
    json.key("token_logprobs");
    json.json(std::move(logprobs_).take());
    json.key("top_logprobs");
    json.json(std::move(tops_).take());
    json.key("text_offset");
    json.json(std::move(offsets_).take());
    json.end_object();
  }

 private:
  // If several tokens have the same name, the last one counts.
  static void set(std::vector<std::pair<std::string, double>>& top, const std::string& name, double logprob) {
    const auto found = std::find_if(top.begin(), top.end(), [&](const auto& one) { return one.first == name; });
    if (found == top.end()) {
      top.emplace_back(name, logprob);
    } else {
      found->second = logprob;
    }
  }

  JsonText tokens_, logprobs_, tops_, offsets_;
};

// The position after one prompt token. Its text may be missing from the echo: a special token added by the tokenizer,
// or the space that some tokenizers put before the first word.
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

// Offsets of an answer start at the end of the echo, even if the prompt tokens' texts add up to another length.
TextPlace behind_answer_token(const AnswerIdentity& who, TextPlace place, std::int32_t token) {
  if (!who.tokenizer->is_special(token)) place.answer_characters += n_characters(token_text(*who.tokenizer, token));
  return place;
}

void write_completion_logprobs(JsonText& json, const AnswerIdentity& who, std::size_t choice, const AnswerPart& part) {
  const std::string_view echo = echo_of(who, choice);
  Columns columns;
  TextPlace place = part.begins;
  for (const auto& token : part.prompt_logprobs) {
    columns.add(*who.tokenizer, token, place.echo_characters);
    place = behind_prompt_token(who, echo, place, token.token);
  }
  const std::size_t answer_begin = part.logprobs.empty() ? 0 : n_characters(echo);
  for (const auto& token : part.logprobs) {
    // The end token is not part of the text. With a scored prompt it is kept, since such clients count entries.
    if (who.tokenizer->is_special(token.token) && !who.prompt_scored) continue;
    columns.add(*who.tokenizer, token, answer_begin + place.answer_characters);
    place = behind_answer_token(who, place, token.token);
  }
  std::move(columns).write(json);
}

}  // namespace

void write_logprobs(JsonText& json, const AnswerIdentity& who, std::size_t choice, const AnswerPart& part) {
  if (!who.logprobs) return json.value(nullptr);
  if (who.endpoint == Endpoint::kChat) return write_chat_logprobs(json, who, part);
  write_completion_logprobs(json, who, choice, part);
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
