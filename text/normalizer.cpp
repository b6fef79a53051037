// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/error.h"
#include "text/byte_alphabet.h"
#include "text/code_points.h"
#include "text/tokenizer_fields.h"
#include "text/utf8.h"

namespace slip {

namespace {

constexpr std::size_t kMaxTextBytes = 256U << 20;
constexpr std::size_t kIcuStretchBytes = 1U << 30;  // ICU takes 32-bit lengths
constexpr std::size_t kMostMarksForIcu = 64;        // in a row; real text has fewer than 10

void check_size(std::size_t bytes) {
  if (bytes > kMaxTextBytes) throw Error(ErrorCode::kTooLarge, "the normalized text is over 256 MiB");
}

const icu::Normalizer2& icu_form(Normalizer::Form form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case Normalizer::Form::kNfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case Normalizer::Form::kNfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case Normalizer::Form::kNfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case Normalizer::Form::kNfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  if (U_FAILURE(status) || found == nullptr) {
    throw Error(ErrorCode::kInternal, std::string("ICU has no normalization data: ") + u_errorName(status));
  }
  return *found;
}

// Calls map(code_point, out) for each character; copies bytes that are not UTF-8.
template <typename Map>
std::string mapped(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.value == CodePoint::kInvalid) {
      out += text.front();
    } else {
      map(c.value, out);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

// The form that decomposes as `form` does and composes nothing.
Normalizer::Form decomposing(Normalizer::Form form) {
  const bool compatible = form == Normalizer::Form::kNfkc || form == Normalizer::Form::kNfkd;
  return compatible ? Normalizer::Form::kNfkd : Normalizer::Form::kNfd;
}

// Appends `marks`, valid UTF-8, decomposed and sorted by combining class (Unicode 15, D108 and D109).
void append_in_canonical_order(std::string_view marks, const icu::Normalizer2& decomposer, std::string& out) {
  struct Mark {
    std::int32_t code_point;
    std::uint8_t combining_class;
  };
  std::vector<Mark> sorted;
  while (!marks.empty()) {
    const CodePoint c = first_code_point(marks);
    icu::UnicodeString spelled;
    if (!decomposer.getDecomposition(c.value, spelled)) spelled.append(c.value);
    for (std::int32_t i = 0; i < spelled.length(); i = spelled.moveIndex32(i, 1)) {
      const std::int32_t one = spelled.char32At(i);
      sorted.push_back({one, u_getCombiningClass(one)});
    }
    marks.remove_prefix(c.bytes);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
  for (const Mark& mark : sorted) append_utf8(mark.code_point, out);
}

// `text`, valid UTF-8, with its long runs of combining marks in canonical order, so that it has the same normal forms.
// ICU moves each mark to its place one step at a time: the time grows with the square of a run that is not in order.
std::string with_long_runs_in_order(std::string_view text, Normalizer::Form form) {
  const icu::Normalizer2& decomposer = icu_form(decomposing(form));
  std::string out;
  std::size_t kept = 0;  // bytes of `text` that `out` stands for
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    std::size_t n_marks = 0;
    CodePoint c = first_code_point(text.substr(at));
    // No boundary before a character: its decomposition begins with a combining mark. U+0F73 is such a character,
    // although its own combining class is 0.
    while (c.value != CodePoint::kInvalid && decomposer.hasBoundaryBefore(c.value) == 0) {
      ++n_marks;
      at += c.bytes;
      c = at < text.size() ? first_code_point(text.substr(at)) : CodePoint{};
    }
    if (n_marks > kMostMarksForIcu) {
      out += text.substr(kept, begin - kept);
      append_in_canonical_order(text.substr(begin, at - begin), decomposer, out);
      kept = at;
    }
    at += c.bytes;  // the character that is no mark
  }
  return out += text.substr(kept);
}

std::string apply_step(std::string_view text, Normalizer::Form form) {
  const icu::Normalizer2& normalizer = icu_form(form);
  check_size(text.size());
  static_assert(kMaxTextBytes < kIcuStretchBytes);
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    const std::string ordered = with_long_runs_in_order(text.substr(0, valid), form);
    std::string part;
    icu::StringByteSink<std::string> sink(&part);
    UErrorCode status = U_ZERO_ERROR;
    normalizer.normalizeUTF8(0, icu::StringPiece(ordered), sink, nullptr, status);
    if (U_FAILURE(status)) throw Error(ErrorCode::kInternal, std::string("ICU: ") + u_errorName(status));
    out += part;
    text.remove_prefix(valid);
    const std::size_t invalid = invalid_utf8_prefix(text);
    out += text.substr(0, invalid);
    text.remove_prefix(invalid);
  }
  return out;
}

// Lowers each character without context (no final sigma), as Hugging Face's tokenizers does. Only U+0130 lowers to two
// code points.
std::string apply_step(std::string_view text, Normalizer::Lowercase) {
  return mapped(text, [](std::int32_t c, std::string& out) {
    constexpr std::int32_t kDottedCapitalI = 0x130;
    append_utf8(c == kDottedCapitalI ? 'i' : u_tolower(c), out);
    if (c == kDottedCapitalI) append_utf8(0x307, out);
  });
}

std::string apply_step(std::string_view text, Normalizer::StripAccents) {
  return mapped(text, [](std::int32_t c, std::string& out) {
    if ((U_GET_GC_MASK(c) & U_GC_M_MASK) == 0) append_utf8(c, out);
  });
}

std::string apply_step(std::string_view text, Normalizer::ByteLevel) {
  std::string out;
  for (const char byte : text) out += spelling_of_byte(static_cast<unsigned char>(byte));
  return out;
}

std::string apply_step(std::string_view text, const Normalizer::Strip& strip) {
  while (strip.left && !text.empty() && is_white_space(first_code_point(text).value)) {
    text.remove_prefix(first_code_point(text).bytes);
  }
  while (strip.right && !text.empty() && is_white_space(last_code_point(text).value)) {
    text.remove_suffix(last_code_point(text).bytes);
  }
  return std::string(text);
}

std::string apply_step(std::string_view text, const Normalizer::Prepend& prepend) {
  return text.empty() ? std::string() : prepend.text + std::string(text);
}

std::string apply_step(std::string_view text, const Normalizer::Replace& replace) {
  return replace_all(text, replace.pattern, replace.by);
}

void read_steps(const TokenizerFields& fields, std::vector<Normalizer::Step>& steps) {
  static const std::map<std::string, Normalizer::Step> known{
      {"NFC", Normalizer::Form::kNfc},        {"NFD", Normalizer::Form::kNfd},
      {"NFKC", Normalizer::Form::kNfkc},      {"NFKD", Normalizer::Form::kNfkd},
      {"Lowercase", Normalizer::Lowercase{}}, {"StripAccents", Normalizer::StripAccents{}},
      {"ByteLevel", Normalizer::ByteLevel{}}};
  const std::string type = fields.type();
  if (steps.size() >= TokenizerFields::kMaxSteps) fields.invalid("type", "comes after too many steps");
  if (type == "Sequence") {
    for (const TokenizerFields& step : fields.objects("normalizers")) read_steps(step, steps);
  } else if (const auto plain = known.find(type); plain != known.end()) {
    steps.push_back(plain->second);
  } else if (type == "Strip") {
    steps.push_back(Normalizer::Strip{fields.flag("strip_left"), fields.flag("strip_right")});
  } else if (type == "Prepend") {
    steps.push_back(Normalizer::Prepend{fields.text("prepend")});
  } else if (type == "Replace") {
    steps.push_back(Normalizer::Replace{TextPattern::read(fields, "pattern"), fields.text("content")});
  } else {
    fields.unsupported("type", "this normalizer");
  }
}

}  // namespace

std::string replace_all(std::string_view text, const TextPattern& pattern, std::string_view by) {
  std::string out;
  pattern.cut(text, [&](const TextSpan& span) {
    out += span.is_match ? by : text.substr(span.begin, span.end - span.begin);
    check_size(out.size());
  });
  return out;
}

Normalizer Normalizer::read(const TokenizerFields& fields) {
  std::vector<Step> steps;
  read_steps(fields, steps);
  return Normalizer(std::move(steps));
}

bool Normalizer::spells_bytes() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<ByteLevel>(step); });
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    out = std::visit([&](const auto& kind) { return apply_step(out, kind); }, step);
    check_size(out.size());
  }
  return out;
}

}  // namespace slip
