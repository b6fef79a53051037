// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

struct TemplateWord {
  enum class Kind : std::uint8_t { kEnd, kName, kInteger, kString, kSign };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: what it stands for
};

// The words of one template tag, one ahead. Throws what template_error() makes.
class TemplateWords {
 public:
  TemplateWords(std::string_view tag, int line);  // which outlives this
  const TemplateWord& peek() const { return word_; }
  bool is_name(std::string_view name) const { return word_.kind == TemplateWord::Kind::kName && word_.text == name; }
  bool is_sign(std::string_view sign) const { return word_.kind == TemplateWord::Kind::kSign && word_.text == sign; }
  TemplateWord take();
  bool take_sign(std::string_view sign);  // false, and nothing taken, when the next word is another
  bool take_name(std::string_view name);
  void expect_sign(std::string_view sign);
  std::string expect_name();
  void expect_end() const;
  int line() const { return line_; }  // of the next word
  // "the chat template uses …": the next word, or `construct`.
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
