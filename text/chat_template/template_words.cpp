// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "text/chat_template/template_source.h"
#include "text/code_points.h"

namespace slip {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::size_t sign_bytes(std::string_view text) {
  constexpr std::array<std::string_view, 6> kLong{"==", "!=", "<=", ">=", "//", "**"};
  return std::any_of(kLong.begin(), kLong.end(), [&](auto sign) { return text.starts_with(sign); }) ? 2 : 1;
}

}  // namespace

TemplateWords::TemplateWords(std::string_view tag, int line) : rest_(tag), line_(line) {
  advance();
}

TemplateWord TemplateWords::take() {
  TemplateWord word = std::move(word_);
  advance();
  return word;
}

bool TemplateWords::take_sign(std::string_view sign) {
  if (!is_sign(sign)) return false;
  advance();
  return true;
}

bool TemplateWords::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  advance();
  return true;
}

void TemplateWords::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) refuse(described() + " where " + std::string(sign) + " belongs");
}

std::string TemplateWords::expect_name() {
  if (word_.kind != TemplateWord::Kind::kName) refuse(described() + " where a name belongs");
  return take().text;
}

void TemplateWords::expect_end() const {
  if (word_.kind != TemplateWord::Kind::kEnd) refuse();
}

void TemplateWords::refuse() const {
  refuse(described());
}

void TemplateWords::refuse(const std::string& construct) const {
  throw template_error(construct, line_);
}

std::string TemplateWords::described() const {
  return word_.kind == TemplateWord::Kind::kEnd ? "an expression that ends early" : "\"" + word_.text + "\"";
}

void TemplateWords::skip_white_space() {
  while (!rest_.empty()) {
    const CodePoint c = first_code_point(rest_);
    if (!is_white_space(c.value)) return;
    if (c.value == '\n') ++line_;
    rest_.remove_prefix(c.bytes);
  }
}

void TemplateWords::advance() {
  skip_white_space();
  word_ = {};
  if (rest_.empty()) return;
  if (rest_.front() == '\'' || rest_.front() == '"') return read_string();
  std::size_t n = 0;
  while (n < rest_.size() && is_name_character(rest_[n])) ++n;
  TemplateWord::Kind kind = TemplateWord::Kind::kSign;
  if (n > 0) kind = is_digit(rest_.front()) ? TemplateWord::Kind::kInteger : TemplateWord::Kind::kName;
  if (n == 0) n = std::max(sign_bytes(rest_), first_code_point(rest_).bytes);
  word_ = {kind, std::string(rest_.substr(0, n))};
  rest_.remove_prefix(n);
}

void TemplateWords::read_string() {
  const char quote = rest_.front();
  word_.kind = TemplateWord::Kind::kString;
  std::size_t at = 1;
  while (at < rest_.size() && rest_[at] != quote) {
    if (rest_[at] == '\n') ++line_;
    if (rest_[at] == '\\' && at + 1 < rest_.size()) {
      read_escape(at);
    } else {
      word_.text += rest_[at++];
    }
  }
  if (at >= rest_.size()) refuse("a string without its end");
  rest_.remove_prefix(at + 1);
}

// Python's escapes. A backslash before any other character is kept.
void TemplateWords::read_escape(std::size_t& at) {
  constexpr std::string_view kLetters = "ntr\\'\"abfv", kMeanings = "\n\t\r\\'\"\a\b\f\v";
  const char letter = rest_[at + 1];
  if (is_digit(letter) || letter == 'N') refuse(std::string("the escape \\") + letter);
  const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (digits > 0) return append_utf8(read_code_point(at, digits), word_.text);
  at += 2;
  if (letter == '\n') {
    ++line_;  // a backslash before a newline continues the line
  } else if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
    word_.text += kMeanings[known];
  } else {
    word_.text += '\\';
    word_.text += letter;
  }
}

std::int32_t TemplateWords::read_code_point(std::size_t& at, std::size_t digits) {
  const std::string_view spelled = rest_.substr(at + 2, digits);
  std::uint32_t value = 0;
  const auto [end, failed] = std::from_chars(spelled.data(), spelled.data() + spelled.size(), value, 16);
  const bool whole = failed == std::errc() && end == spelled.data() + digits && spelled.size() == digits;
  if (!whole || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    refuse("the escape " + std::string(rest_.substr(at, 2 + digits)));
  }
  at += 2 + digits;
  return static_cast<std::int32_t>(value);
}

}  // namespace slip
