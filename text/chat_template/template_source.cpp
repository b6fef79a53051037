// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_source.h"

#include <algorithm>
#include <utility>

#include "text/chat_template/template_text.h"

namespace slip {

namespace {

// Converts "\r\n" and "\r" to "\n" and drops the last newline.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// Position of the end mark outside strings and brackets: `{{ "}}" }}` is one tag, and so is `{{ {"a": {}} }}`.
std::size_t find_end(std::string_view source, std::size_t from, std::string_view mark) {
  char quote = 0;
  int open = 0;
  for (std::size_t i = from; i < source.size(); ++i) {
    const char c = source[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (open == 0 && source.substr(i, mark.size()) == mark) {
      return i;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++open;
    } else if (c == ')' || c == ']' || c == '}') {
      open = std::max(open - 1, 0);
    }
  }
  return std::string_view::npos;
}

void strip_end(std::string& text) {
  text.resize(stripped(text, {.left = false}).end);
}

// Applies lstrip_blocks, provided that only blanks precede the tag on its line.
void strip_line_start(std::string& text, bool begins_line) {
  const std::size_t newline = text.rfind('\n');
  const std::size_t line = newline == std::string::npos ? 0 : newline + 1;
  if (line == 0 && !begins_line) return;
  if (stripped(std::string_view(text).substr(line), {.left = false}).end == 0) text.resize(line);
}

class Cutter {
 public:
  explicit Cutter(std::string_view source) : source_(source) {}

  std::vector<TemplatePart> cut() {
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag();
      std::string text(source_.substr(at_, tag - at_));
      const int line = line_;
      move_to(tag);
      if (tag < source_.size()) strip_before_tag(text);
      push_text(std::move(text), line);
      if (tag < source_.size()) take_tag();
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

  void move_to(std::size_t at) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    at_ = at;
  }

  void strip_before_tag(std::string& text) const {
    const char sign = at(at_ + 2);
    if (sign == '-') {
      strip_end(text);
    } else if (at(at_ + 1) != '{' && sign != '+') {
      // Text right after a tag starts in the middle of a line, unless that tag's newline was trimmed.
      strip_line_start(text, line_begins_);
    }
  }

  void push_text(std::string text, int line) {
    if (text.empty()) return;
    line_begins_ = text.back() == '\n';
    parts_.push_back({TemplatePart::Kind::kText, line, std::move(text)});
  }

  void take_tag() {
    const char kind = at(at_ + 1);
    std::size_t begin = at_ + 2;
    if (at(begin) == '-' || at(begin) == '+') ++begin;
    const std::string_view mark = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const std::size_t end = kind == '#' ? source_.find(mark, begin) : find_end(source_, begin, mark);
    if (end == std::string_view::npos) throw template_error("a tag without its end", line_);
    const char sign = end > begin ? source_[end - 1] : '\0';
    const bool signed_end = sign == '-' || (sign == '+' && kind != '{');
    const std::string_view inside = source_.substr(begin, end - begin - (signed_end ? 1 : 0));
    if (kind == '{') parts_.push_back({TemplatePart::Kind::kOutput, line_, std::string(inside)});
    if (kind == '%') parts_.push_back({TemplatePart::Kind::kStatement, line_, std::string(inside)});
    skip_behind(end + mark.size(), sign, kind);
  }

  void skip_behind(std::size_t end, char sign, char kind) {
    line_begins_ = false;
    if (sign == '-') {
      const std::string_view rest = source_.substr(end);
      const std::size_t blank = stripped(rest, {.right = false}).begin;
      line_begins_ = blank > 0 && rest[blank - 1] == '\n';
      end += blank;
    } else if (kind != '{' && sign != '+' && at(end) == '\n') {
      ++end;
      line_begins_ = true;
    }
    move_to(end);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
  std::vector<TemplatePart> parts_;
};

}  // namespace

std::vector<TemplatePart> cut_template(std::string_view source) {
  const std::string plain = with_plain_newlines(source);
  return Cutter(plain).cut();
}

Error template_error(const std::string& construct, int line) {
  return Error(ErrorCode::kUnsupported,
               "the chat template uses " + construct + " in line " + std::to_string(line) + ", which is not supported",
               "give a template that does without with --chat-template FILE", "chat_template");
}

}  // namespace slip
