// SPDX-License-Identifier: Apache-2.0
#include "engine/model/template_source.h"

#include <utility>

namespace slip {

namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

// The end mark outside string literals: `{{ "}}" }}` is one tag.
std::size_t find_end(std::string_view source, std::size_t from, std::string_view mark) {
  char quote = 0;
  for (std::size_t i = from; i < source.size(); ++i) {
    const char c = source[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (source.substr(i, mark.size()) == mark) {
      return i;
    } else if (c == '\'' || c == '"') {
      quote = c;
    }
  }
  return std::string_view::npos;
}

void strip_end(std::string& text, std::string_view characters) {
  const std::size_t last = text.find_last_not_of(characters);
  text.erase(last == std::string::npos ? 0 : last + 1);
}

// lstrip_blocks: only when nothing but blanks stands before the tag on its line.
void strip_line_start(std::string& text, bool begins_template) {
  const std::size_t last = text.find_last_not_of(kBlanks);
  const bool line_start = last == std::string::npos ? begins_template : text[last] == '\n';
  if (line_start) strip_end(text, kBlanks);
}

class Cutter {
 public:
  explicit Cutter(std::string_view source) : source_(source) {
    if (source_.ends_with('\n')) source_.remove_suffix(1);
  }

  std::vector<TemplatePart> cut() {
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag();
      std::string text(source_.substr(at_, tag - at_));
      at_ = tag;
      if (tag == source_.size()) {
        push_text(std::move(text));
        break;
      }
      strip_before_tag(text);
      push_text(std::move(text));
      take_tag();
    }
    return std::move(parts_);
  }

 private:
  std::size_t find_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && std::string_view("{%#").find(source_[i + 1]) != std::string_view::npos) return i;
    }
    return source_.size();
  }

  char at(std::size_t index) const { return index < source_.size() ? source_[index] : '\0'; }

  void strip_before_tag(std::string& text) const {
    const char sign = at(at_ + 2);
    if (sign == '-') {
      strip_end(text, kWhiteSpace);
    } else if (at(at_ + 1) != '{' && sign != '+') {
      // A text that begins right behind a tag is in the middle of a line, unless that tag's newline was trimmed.
      strip_line_start(text, line_begins_);
    }
  }

  void push_text(std::string text) {
    if (text.empty()) return;
    line_begins_ = text.back() == '\n';
    parts_.push_back({TemplatePart::Kind::kText, std::move(text)});
  }

  void take_tag() {
    const char kind = at(at_ + 1);
    std::size_t begin = at_ + 2;
    if (at(begin) == '-' || at(begin) == '+') ++begin;
    const std::string_view mark = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const std::size_t end = kind == '#' ? source_.find(mark, begin) : find_end(source_, begin, mark);
    if (end == std::string_view::npos) throw template_error("a tag without its end");
    const char sign = end > begin ? source_[end - 1] : '\0';
    const bool signed_end = sign == '-' || sign == '+';
    const std::string_view inside = source_.substr(begin, end - begin - (signed_end ? 1 : 0));
    if (kind == '{') parts_.push_back({TemplatePart::Kind::kOutput, std::string(inside)});
    if (kind == '%') parts_.push_back({TemplatePart::Kind::kStatement, std::string(inside)});
    at_ = end + mark.size();
    line_begins_ = false;
    if (sign == '-') {
      while (at_ < source_.size() && kWhiteSpace.find(source_[at_]) != std::string_view::npos) ++at_;
    } else if (kind != '{' && sign != '+' && at(at_) == '\n') {
      ++at_;
      line_begins_ = true;
    }
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_begins_ = true;
  std::vector<TemplatePart> parts_;
};

}  // namespace

std::vector<TemplatePart> cut_template(std::string_view source) {
  return Cutter(source).cut();
}

Error template_error(const std::string& construct) {
  return Error(ErrorCode::kUnsupported, "the chat template uses " + construct + ", which is not supported",
               "supported: one loop over messages, if/elif/else, role, content, bos_token, eos_token, "
               "add_generation_prompt, loop.first, loop.last, +, ~, ==, !=, and, or, not, trim",
               "chat_template");
}

}  // namespace slip
