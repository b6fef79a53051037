// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "text/byte_alphabet.h"
#include "text/code_points.h"
#include "text/tokenizer_fields.h"
#include "text/utf8.h"

namespace slip {

namespace {

constexpr std::size_t kMaxTextBytes = 256U << 20;
constexpr std::size_t kIcuStretchBytes = 1U << 30;  // ICU takes 32-bit lengths

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

std::string apply_step(std::string_view text, Normalizer::Form form) {
  const icu::Normalizer2& normalizer = icu_form(form);
  check_size(text.size());
  static_assert(kMaxTextBytes < kIcuStretchBytes);
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    std::string part;
    icu::StringByteSink<std::string> sink(&part);
    UErrorCode status = U_ZERO_ERROR;
    normalizer.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<std::int32_t>(valid)), sink, nullptr, status);
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
  static const std::map<std::string, Normalizer::Step> kPlain{
      {"NFC", Normalizer::Form::kNfc},        {"NFD", Normalizer::Form::kNfd},
      {"NFKC", Normalizer::Form::kNfkc},      {"NFKD", Normalizer::Form::kNfkd},
      {"Lowercase", Normalizer::Lowercase{}}, {"StripAccents", Normalizer::StripAccents{}},
      {"ByteLevel", Normalizer::ByteLevel{}}};
  const std::string type = fields.type();
  if (steps.size() >= TokenizerFields::kMaxSteps) fields.invalid("type", "comes after too many steps");
  if (type == "Sequence") {
    for (const TokenizerFields& step : fields.objects("normalizers")) read_steps(step, steps);
  } else if (const auto plain = kPlain.find(type); plain != kPlain.end()) {
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
