// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

namespace slip {

namespace {

// The valid second bytes after a lead byte. Overlong forms, surrogates and code points above 10FFFF differ from valid
// ones only there.
struct Lead {
  std::size_t length = 0;  // 0: not a lead byte
  unsigned char second_low = 0x80, second_high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
  using Kind = Utf8Step::Kind;
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {Kind::kInvalid, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool fits = i == 1 ? byte >= lead.second_low && byte <= lead.second_high : (byte & 0xC0) == 0x80;
    if (!fits) return {Kind::kInvalid, i};
  }
  return {Kind::kValid, lead.length};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = next_utf8(text.substr(at));
    if (step.kind != Utf8Step::Kind::kValid) break;
    at += step.bytes;
  }
  return at;
}

std::size_t invalid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = next_utf8(text.substr(at));
    if (step.kind == Utf8Step::Kind::kValid) break;
    at += step.bytes;
  }
  return at;
}

namespace {

void append_replacement(std::size_t bytes, Utf8Repair repair, std::string& out) {
  const std::size_t n = repair == Utf8Repair::kPerByte ? bytes : 1;
  for (std::size_t i = 0; i < n; ++i) out += kReplacementCharacter;
}

}  // namespace

void take_whole_characters(std::string& pending, std::string& out, Utf8Repair repair) {
  std::size_t at = 0;
  while (at < pending.size()) {
    const Utf8Step step = next_utf8(std::string_view(pending).substr(at));
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    if (step.kind == Utf8Step::Kind::kValid) {
      out.append(pending, at, step.bytes);
    } else {
      append_replacement(step.bytes, repair, out);
    }
    at += step.bytes;
  }
  pending.erase(0, at);
}

void take_all_characters(std::string& pending, std::string& out, Utf8Repair repair) {
  take_whole_characters(pending, out, repair);
  if (!pending.empty()) append_replacement(pending.size(), repair, out);
  pending.clear();
}

}  // namespace slip
