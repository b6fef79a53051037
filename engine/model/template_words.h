// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

struct TemplateWord {
  enum class Kind : std::uint8_t { kEnd, kName, kString, kSign };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: what it stands for
};

// The words of one template tag, one ahead. Throws what template_error() makes.
class TemplateWords {
 public:
  explicit TemplateWords(std::string_view tag);  // which outlives this
  const TemplateWord& peek() const { return word_; }
  TemplateWord take();
  bool take_sign(std::string_view sign);  // false, and nothing taken, when the next word is another
  bool take_name(std::string_view name);
  void expect_sign(std::string_view sign);
  void expect_end() const;
  std::string described() const;  // the next word, for an error

 private:
  bool take_if(TemplateWord::Kind kind, std::string_view text);
  void advance();
  void read_string();

  std::string_view rest_;
  TemplateWord word_;
};

}  // namespace slip
