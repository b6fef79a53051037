// SPDX-License-Identifier: Apache-2.0
#include "engine/model/template_words.h"

#include <cctype>
#include <utility>

#include "engine/model/template_source.h"

namespace slip {

namespace {

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      throw template_error(std::string("the escape \\") + c);
  }
}

}  // namespace

TemplateWords::TemplateWords(std::string_view tag) : rest_(tag) {
  advance();
}

TemplateWord TemplateWords::take() {
  TemplateWord word = std::move(word_);
  advance();
  return word;
}

bool TemplateWords::take_sign(std::string_view sign) {
  return take_if(TemplateWord::Kind::kSign, sign);
}
bool TemplateWords::take_name(std::string_view name) {
  return take_if(TemplateWord::Kind::kName, name);
}

void TemplateWords::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) throw template_error(described() + " where " + std::string(sign) + " belongs");
}

void TemplateWords::expect_end() const {
  if (word_.kind != TemplateWord::Kind::kEnd) throw template_error(described());
}

std::string TemplateWords::described() const {
  return word_.kind == TemplateWord::Kind::kEnd ? "an expression that ends early" : "\"" + word_.text + "\"";
}

bool TemplateWords::take_if(TemplateWord::Kind kind, std::string_view text) {
  if (word_.kind != kind || word_.text != text) return false;
  advance();
  return true;
}

void TemplateWords::advance() {
  while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  word_ = {};
  if (rest_.empty()) return;
  if (rest_.front() == '\'' || rest_.front() == '"') return read_string();
  std::size_t n = 0;
  while (n < rest_.size() && is_name_character(rest_[n])) ++n;
  const TemplateWord::Kind kind = n > 0 ? TemplateWord::Kind::kName : TemplateWord::Kind::kSign;
  if (n == 0) n = rest_.starts_with("==") || rest_.starts_with("!=") ? 2 : 1;
  word_ = {kind, std::string(rest_.substr(0, n))};
  rest_.remove_prefix(n);
}

void TemplateWords::read_string() {
  const char quote = rest_.front();
  word_.kind = TemplateWord::Kind::kString;
  std::size_t i = 1;
  for (; i < rest_.size() && rest_[i] != quote; ++i) {
    word_.text += rest_[i] == '\\' && i + 1 < rest_.size() ? unescaped(rest_[++i]) : rest_[i];
  }
  if (i == rest_.size()) throw template_error("a string without its end");
  rest_.remove_prefix(i + 1);
}

}  // namespace slip
