// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

struct TemplateWord {
  enum class Kind : std::uint8_t { kEnd, kName, kInteger, kString, kSign };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: its unescaped content
};

// The lexer of one template tag, with one word of look-ahead. Throws template_error().
class TemplateWords {
 public:
  TemplateWords(std::string_view tag, int line);  // the tag's text must outlive this
  const TemplateWord& peek() const { return word_; }
  bool is_name(std::string_view name) const { return word_.kind == TemplateWord::Kind::kName && word_.text == name; }
  bool is_sign(std::string_view sign) const { return word_.kind == TemplateWord::Kind::kSign && word_.text == sign; }
  TemplateWord take();
  bool take_sign(std::string_view sign);  // false if the next word is another; nothing is taken then
  bool take_name(std::string_view name);
  void expect_sign(std::string_view sign);
  std::string expect_name();
  void expect_end() const;
  int line() const { return line_; }  // of the next word
  // Throws "the chat template uses …", naming the next word or `construct`.
  [[noreturn]] void refuse() const;
  [[noreturn]] void refuse(const std::string& construct) const;

 private:
  std::string described() const;
  void advance();
  void skip_white_space();
  void read_string();
  void read_escape(std::size_t& at);
  std::int32_t read_code_point(std::size_t& at, std::size_t digits);

  std::string_view rest_;
  int line_;
  TemplateWord word_;
};

}  // namespace slip
