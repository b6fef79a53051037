// SPDX-License-Identifier: Apache-2.0
#include "server/http/json_text.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "text/utf8.h"

namespace slip {
namespace {

bool is_plain(char c) {
  return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
}

}  // namespace

void JsonText::key(std::string_view name) {
  comma();
  append_string(name);
  append(":");
  follows_ = false;
}

void JsonText::value(std::string_view text) {
  comma();
  append_string(text);
  follows_ = true;
}

// Writes nlohmann's shortest form that reads back as the same number.
void JsonText::value(double number) {
  literal(nlohmann::json(number).dump());
}

void JsonText::open(char bracket) {
  comma();
  append({&bracket, 1});
  follows_ = false;
}

void JsonText::close(char bracket) {
  append({&bracket, 1});
  follows_ = true;
}

void JsonText::literal(std::string_view text) {
  comma();
  append(text);
  follows_ = true;
}

void JsonText::comma() {
  if (follows_) append(",");
}

void JsonText::append(std::string_view bytes) {
  if (bytes.size() > max_bytes_ - text_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the answer would be longer than " + std::to_string(max_bytes_) + " bytes, " + limit_,
                "send a shorter text, or ask for less");
  }
  text_ += bytes;
}

void JsonText::append_string(std::string_view text) {
  append("\"");
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    append_escaped(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    append(kReplacementCharacter);
    text.remove_prefix(next_utf8(text).bytes);
  }
  append("\"");
}

void JsonText::append_escaped(std::string_view valid) {
  while (!valid.empty()) {
    std::size_t plain = 0;
    while (plain < valid.size() && is_plain(valid[plain])) ++plain;
    append(valid.substr(0, plain));
    valid.remove_prefix(plain);
    if (valid.empty()) return;
    constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    const auto found = kShort.find(valid.front());
    if (found != std::string_view::npos) {
      append("\\");
      append(kLetters.substr(found, 1));
    } else {
      std::array<char, 7> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(valid.front()));
      append(code.data());
    }
    valid.remove_prefix(1);
  }
}

}  // namespace slip
