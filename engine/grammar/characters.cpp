// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/characters.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace slip {

namespace {

using Path = ByteNfa::Path;

constexpr std::uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

Path encode(std::uint32_t first, std::uint32_t last) {
  const auto range = [](std::uint32_t lead, std::uint32_t low, std::uint32_t high) {
    return std::pair(static_cast<std::uint8_t>(lead | low), static_cast<std::uint8_t>(lead | high));
  };
  const auto trail = [&](int shift) { return range(0x80, first >> shift & 0x3F, last >> shift & 0x3F); };
  if (last < 0x80) return {range(0, first, last)};
  if (last < 0x800) return {range(0xC0, first >> 6, last >> 6), trail(0)};
  if (last < 0x10000) return {range(0xE0, first >> 12, last >> 12), trail(6), trail(0)};
  return {range(0xF0, first >> 18, last >> 18), trail(12), trail(6), trail(0)};
}

// UTF-8 of [first, last] as paths of byte ranges: splits the range until every byte's range is independent of the
// others.
void add_utf8(std::uint32_t first, std::uint32_t last, std::vector<Path>& out) {
  for (const std::uint32_t longest : {0x7FU, 0x7FFU, 0xFFFFU}) {
    if (first <= longest && last > longest) {
      add_utf8(first, longest, out);
      add_utf8(longest + 1, last, out);
      return;
    }
  }
  if (last >= 0x80) {
    for (int shift = 6; shift <= 18; shift += 6) {
      const std::uint32_t below = (1U << shift) - 1;
      if ((first & ~below) == (last & ~below)) continue;
      if ((first & below) != 0) {
        add_utf8(first, first | below, out);
        add_utf8((first | below) + 1, last, out);
        return;
      }
      if ((last & below) != below) {
        add_utf8(first, (last & ~below) - 1, out);
        add_utf8(last & ~below, last, out);
        return;
      }
    }
  }
  out.push_back(encode(first, last));
}

Path path_of(const std::string& text) {
  Path path;
  for (const char one : text) path.emplace_back(static_cast<std::uint8_t>(one), static_cast<std::uint8_t>(one));
  return path;
}

bool needs_escape(std::uint32_t point) {
  return point < 0x20 || point == '"' || point == '\\';
}

std::string shortest_escape(std::uint32_t point) {
  static constexpr std::array<std::pair<char, const char*>, 7> kShort = {
      {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}}};
  for (const auto& [character, spelling] : kShort) {
    if (static_cast<std::uint32_t>(character) == point) return spelling;
  }
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(point));
  return text.data();
}

}  // namespace

CodePoints normalise(CodePoints points) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  CodePoints merged;
  for (const CodePointRange& range : points) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  CodePoints kept;
  for (const CodePointRange& range : merged) {
    if (range.first < kFirstSurrogate) kept.push_back({range.first, std::min(range.last, kFirstSurrogate - 1)});
    if (range.last > kLastSurrogate) kept.push_back({std::max(range.first, kLastSurrogate + 1), range.last});
  }
  return kept;
}

CodePoints complement(const CodePoints& points) {
  CodePoints rest;
  std::uint32_t next = 0;
  for (const CodePointRange& range : normalise(points)) {
    if (next < range.first) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) rest.push_back({next, kLastCodePoint});
  return normalise(std::move(rest));
}

ByteNfa::Fragment spell_canonically(ByteNfa& nfa, const CodePoints& points) {
  std::vector<Path> paths;
  for (const CodePointRange& range : normalise(points)) {
    std::uint32_t first = range.first;
    // Only code points up to '\\' ever need an escape.
    for (std::uint32_t point = first; point <= std::min<std::uint32_t>(range.last, '\\'); ++point) {
      if (!needs_escape(point)) continue;
      if (first < point) add_utf8(first, point - 1, paths);
      paths.push_back(path_of(shortest_escape(point)));
      first = point + 1;
    }
    if (first <= range.last) add_utf8(first, range.last, paths);
  }
  return nfa.any_path(paths);
}

ByteNfa::Fragment spell_anyhow(ByteNfa& nfa) {
  const CodePoints raw = normalise({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kLastCodePoint}});
  std::vector<Path> paths;
  for (const CodePointRange& range : raw) add_utf8(range.first, range.last, paths);
  for (const char escaped : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) paths.push_back(path_of({'\\', escaped}));
  const auto hex = [&] { return nfa.either(nfa.bytes('0', '9'), nfa.any_of("abcdefABCDEF")); };
  const auto hexes = [&](std::int32_t n) { return nfa.repeat(hex, n, n); };
  const auto escape = [&](ByteNfa::Fragment digits) { return nfa.then(nfa.literal("\\u"), digits); };
  const auto plain = nfa.either(nfa.then(nfa.any_of("0123456789abcefABCEF"), hexes(3)),
                                nfa.then(nfa.any_of("dD"), nfa.then(nfa.bytes('0', '7'), hexes(2))));
  const auto high = nfa.then(nfa.any_of("dD"), nfa.then(nfa.any_of("89abAB"), hexes(2)));
  const auto low = nfa.then(nfa.any_of("dD"), nfa.then(nfa.any_of("cdefCDEF"), hexes(2)));
  return nfa.either(nfa.any_path(paths), nfa.either(escape(plain), nfa.then(escape(high), escape(low))));
}

}  // namespace slip
