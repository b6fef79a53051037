// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_text.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringoptions.h>
#include <unicode/stringpiece.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "text/code_points.h"

namespace slip {

namespace {

// Python's str.isspace(): Unicode white space and the separators U+001C to U+001F.
bool is_python_space(std::int32_t code_point) {
  return is_white_space(code_point) || (code_point >= 0x1C && code_point <= 0x1F);
}

bool ends_line(std::int32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

template <typename Strips>
ByteRange stripped_of(std::string_view text, StripSides sides, Strips strips) {
  ByteRange left{0, text.size()};
  while (sides.left && left.begin < left.end) {
    const CodePoint c = first_code_point(text.substr(left.begin));
    if (!strips(text.substr(left.begin, c.bytes), c.value)) break;
    left.begin += c.bytes;
  }
  while (sides.right && left.begin < left.end) {
    const CodePoint c = last_code_point(text.substr(left.begin, left.end - left.begin));
    if (!strips(text.substr(left.end - c.bytes, c.bytes), c.value)) break;
    left.end -= c.bytes;
  }
  return left;
}

std::string with_case(std::string_view text, LetterCase to) {
  const icu::StringPiece in(text.data(), static_cast<std::int32_t>(text.size()));
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  if (to == LetterCase::kUpper) {
    icu::CaseMap::utf8ToUpper("", 0, in, sink, nullptr, status);
  } else if (to == LetterCase::kLower) {
    icu::CaseMap::utf8ToLower("", 0, in, sink, nullptr, status);
  } else {
    constexpr std::uint32_t kOnlyTheFirst = U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT;
    icu::CaseMap::utf8ToTitle("", kOnlyTheFirst, nullptr, in, sink, nullptr, status);
  }
  SLIP_CHECK(U_SUCCESS(status), "ICU maps case without data of its own");
  return out;
}

template <typename Visit>
void visit_words(std::string_view text, Visit visit) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const CodePoint c = at < text.size() ? first_code_point(text.substr(at)) : CodePoint{' ', 1};
    if (is_python_space(c.value)) {
      if (at > begin) visit(ByteRange{begin, at});
      begin = at + c.bytes;
    }
    at += c.bytes;
  }
}

template <typename Visit>
void visit_lines(std::string_view text, Visit visit) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = first_code_point(text.substr(at));
    const std::size_t end = at;
    at += text.substr(at).starts_with("\r\n") ? 2 : c.bytes;
    if (!ends_line(c.value)) continue;
    visit(ByteRange{begin, end});
    begin = at;
  }
  if (begin < text.size()) visit(ByteRange{begin, text.size()});
}

}  // namespace

TemplateText::TemplateText(std::string bytes, SpecialTokens specials) : bytes_(std::move(bytes)) {
  if (specials == SpecialTokens::kAsText) mark(whole());
}

void TemplateText::mark(ByteRange of_message) {
  if (of_message.begin == of_message.end) return;
  if (!of_message_.empty() && of_message_.back().end == of_message.begin) {
    of_message_.back().end = of_message.end;
  } else {
    of_message_.push_back(of_message);
  }
}

void TemplateText::append(const TemplateText& other, ByteRange part) {
  const std::size_t at = bytes_.size();
  bytes_.append(other.bytes_, part.begin, part.end - part.begin);
  const auto before = [&](const ByteRange& range) { return range.end <= part.begin; };
  auto range = std::partition_point(other.of_message_.begin(), other.of_message_.end(), before);
  for (; range != other.of_message_.end() && range->begin < part.end; ++range) {
    mark({at + std::max(range->begin, part.begin) - part.begin, at + std::min(range->end, part.end) - part.begin});
  }
}

TemplateText TemplateText::slice(ByteRange part) const {
  TemplateText out;
  out.append(*this, part);
  return out;
}

std::vector<TextPiece> TemplateText::pieces(ByteRange part) const {
  std::vector<TextPiece> out;
  const auto add = [&](std::size_t begin, std::size_t end, SpecialTokens specials) {
    if (begin < end) out.push_back({bytes_.substr(begin, end - begin), specials});
  };
  std::size_t done = part.begin;
  for (const ByteRange& range : of_message_) {
    if (range.end <= part.begin || range.begin >= part.end) continue;
    const std::size_t begin = std::max(range.begin, part.begin), end = std::min(range.end, part.end);
    add(done, begin, SpecialTokens::kParse);
    add(begin, end, SpecialTokens::kAsText);
    done = end;
  }
  add(done, part.end, SpecialTokens::kParse);
  return out;
}

std::size_t n_characters(std::string_view text) {
  std::size_t n = 0;
  for (; !text.empty(); ++n) text.remove_prefix(first_code_point(text).bytes);
  return n;
}

ByteRange character_range(std::string_view text, std::size_t begin, std::size_t end) {
  ByteRange out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < end; ++i) {
    if (i == begin) out.begin = at;
    at += first_code_point(text.substr(at)).bytes;
  }
  return begin == end ? ByteRange{at, at} : ByteRange{out.begin, at};
}

ByteRange stripped(std::string_view text, StripSides sides) {
  return stripped_of(text, sides, [](std::string_view, std::int32_t c) { return is_python_space(c); });
}

ByteRange stripped(std::string_view text, StripSides sides, std::string_view characters) {
  return stripped_of(text, sides, [&](std::string_view c, std::int32_t) {
    for (std::string_view left = characters; !left.empty();) {
      const std::size_t n = first_code_point(left).bytes;
      if (left.substr(0, n) == c) return true;
      left.remove_prefix(n);
    }
    return false;
  });
}

TemplateTexts split(const TemplateText& text, std::string_view separator, std::size_t most) {
  TemplateTexts out;
  std::size_t begin = 0;
  while (out.size() < most) {
    const std::size_t end = text.bytes().find(separator, begin);
    if (end == std::string::npos) break;
    out.push_back(text.slice({begin, end}));
    begin = end + separator.size();
  }
  out.push_back(text.slice({begin, text.size()}));
  return out;
}

TemplateTexts split_from_right(const TemplateText& text, std::string_view separator, std::size_t most) {
  TemplateTexts out;
  std::size_t end = text.size();
  while (out.size() < most && end >= separator.size()) {
    const std::size_t begin = text.bytes().rfind(separator, end - separator.size());
    if (begin == std::string::npos) break;
    out.push_back(text.slice({begin + separator.size(), end}));
    end = begin;
  }
  out.push_back(text.slice({0, end}));
  std::reverse(out.begin(), out.end());
  return out;
}

std::size_t n_parts(std::string_view text, std::string_view separator, std::size_t most) {
  std::size_t n = 0;
  for (std::size_t at = text.find(separator); at != std::string_view::npos && n < most; ++n) {
    at = text.find(separator, at + separator.size());
  }
  return n + 1;
}

TemplateTexts split_at_white_space(const TemplateText& text) {
  TemplateTexts out;
  visit_words(text.bytes(), [&](ByteRange word) { out.push_back(text.slice(word)); });
  return out;
}

std::size_t n_words(std::string_view text) {
  std::size_t n = 0;
  visit_words(text, [&](ByteRange) { ++n; });
  return n;
}

TemplateTexts split_lines(const TemplateText& text) {
  TemplateTexts out;
  visit_lines(text.bytes(), [&](ByteRange line) { out.push_back(text.slice(line)); });
  return out;
}

std::size_t n_lines(std::string_view text) {
  std::size_t n = 0;
  visit_lines(text, [&](ByteRange) { ++n; });
  return n;
}

TemplateText replace(const TemplateText& text, std::string_view old, const TemplateText& by, std::size_t most) {
  TemplateText out;
  std::size_t done = 0;
  for (std::size_t n = 0; n < most; ++n) {
    const std::size_t at = text.bytes().find(old, done);
    if (at == std::string::npos) break;
    out.append(text, {done, at});
    out.append(by);
    done = at + old.size();
  }
  out.append(text, {done, text.size()});
  return out;
}

TemplateText with_case(const TemplateText& text, LetterCase to) {
  TemplateText out;
  for (const TextPiece& piece : text.pieces()) {
    const bool first = out.empty();
    const LetterCase now = to == LetterCase::kFirstUpper && !first ? LetterCase::kLower : to;
    out.append(TemplateText(with_case(std::string_view(piece.text), now), piece.specials));
  }
  return out;
}

TemplateText with_words_capitalized(const TemplateText& text) {
  TemplateText out;
  bool starts_word = true;
  const std::string_view bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint c = first_code_point(bytes.substr(at));
    const TemplateText one = text.slice({at, at + c.bytes});
    out.append(with_case(one, starts_word ? LetterCase::kUpper : LetterCase::kLower));
    at += c.bytes;
    starts_word = is_python_space(c.value) || std::string_view("-({[<").find(one.bytes()) != std::string_view::npos;
  }
  return out;
}

}  // namespace slip
