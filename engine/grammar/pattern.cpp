// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/pattern.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "engine/grammar/characters.h"

namespace slip {

namespace {

using Fragment = ByteNfa::Fragment;

constexpr std::int32_t kMostRepeats = 10000;
constexpr int kDeepest = 64;

const CodePoints& digits() {
  static const CodePoints points{{'0', '9'}};
  return points;
}
const CodePoints& word_characters() {
  static const CodePoints points{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return points;
}
const CodePoints& blanks() {  // ECMA-262's WhiteSpace and LineTerminator
  static const CodePoints points{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                 {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                 {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return points;
}
const CodePoints& line_ends() {
  static const CodePoints points{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return points;
}
const CodePoints& everything() {
  static const CodePoints points = complement({});
  return points;
}

// `text` is well-formed UTF-8, since the JSON parser accepted it.
std::vector<std::uint32_t> code_points_of(std::string_view text) {
  std::vector<std::uint32_t> points;
  for (const char one : text) {
    const auto byte = static_cast<std::uint8_t>(one);
    if ((byte & 0xC0) == 0x80 && !points.empty()) {
      points.back() = points.back() << 6 | (byte & 0x3FU);
    } else {
      points.push_back(byte < 0x80 ? byte : byte < 0xE0 ? byte & 0x1FU : byte < 0xF0 ? byte & 0x0FU : byte & 0x07U);
    }
  }
  return points;
}

// Recursive descent. Parses a quantified atom again for each of its copies, so it keeps no tree.
class PatternReader {
 public:
  PatternReader(std::string_view pattern, AutomatonBudget& budget)
      : pattern_(code_points_of(pattern)), budget_(budget), nfa_(budget) {}

  ByteAutomaton read() {
    Fragment whole = outer_alternative();
    while (take('|')) whole = nfa_.either(whole, outer_alternative());
    if (!at_end()) refuse("has a ')' without its '('");
    const Fragment quoted = nfa_.then(nfa_.literal("\""), nfa_.then(whole, nfa_.literal("\"")));
    return nfa_.determinise(quoted);
  }

 private:
  bool at_end() const { return place_ == pattern_.size(); }
  bool next_is(char one) const { return !at_end() && pattern_[place_] == static_cast<std::uint32_t>(one); }
  bool take(char one) {
    if (!next_is(one)) return false;
    ++place_;
    return true;
  }
  std::uint32_t take_any() {
    if (at_end()) refuse("ends too early");
    return pattern_[place_++];
  }

  [[noreturn]] void refuse(const std::string& why, ErrorCode code = ErrorCode::kInvalidArgument) const {
    throw Error(code, "'" + budget_.where + "' " + why + " (at character " + std::to_string(place_ + 1) + ")", {},
                budget_.where);
  }
  [[noreturn]] void refuse_unsupported(const std::string& what) const {
    refuse("uses " + what + ", which is not supported", ErrorCode::kUnsupported);
  }

  Fragment anything() { return nfa_.many(spell_canonically(nfa_, everything())); }

  Fragment outer_alternative() {
    const Fragment before = take('^') ? nfa_.empty() : anything();
    const Fragment inner = sequence();
    const Fragment after = take('$') ? nfa_.empty() : anything();
    if (!at_end() && !next_is('|') && !next_is(')')) refuse_unsupported("'$' inside an alternative");
    return nfa_.then(before, nfa_.then(inner, after));
  }

  Fragment group() {
    if (++depth_ > kDeepest) refuse("is nested too deeply");
    if (take('?') && !take(':')) refuse_unsupported("a group that is not (…) or (?:…)");
    Fragment inner = sequence();
    while (take('|')) inner = nfa_.either(inner, sequence());
    if (next_is('$')) refuse_unsupported("'$' inside a group");
    if (!take(')')) refuse("has a '(' without its ')'");
    --depth_;
    return inner;
  }

  Fragment sequence() {
    Fragment made = nfa_.empty();
    while (!at_end() && !next_is('|') && !next_is(')') && !next_is('$')) made = nfa_.then(made, quantified());
    return made;
  }

  Fragment quantified() {
    const std::size_t begin = place_;
    Fragment once = atom();
    const auto bounds = quantifier();
    if (!bounds) return once;
    const std::size_t end = place_;
    bool used = false;  // whether `once`, parsed before the quantifier, was used
    const auto make = [&] {
      if (!std::exchange(used, true)) return once;
      budget_.take_steps(end - begin);  // a long class may need few nodes
      place_ = begin;
      return atom();
    };
    const Fragment repeated = nfa_.repeat(make, bounds->first, bounds->second);
    place_ = end;
    return repeated;
  }

  // {least, most}, most −1 for no bound; laziness changes nothing about what is found.
  std::optional<std::pair<std::int32_t, std::int32_t>> quantifier() {
    std::pair<std::int32_t, std::int32_t> bounds{0, -1};
    if (take('+')) {
      bounds.first = 1;
    } else if (take('?')) {
      bounds.second = 1;
    } else if (take('{')) {
      bounds.first = bounds.second = count();
      if (take(',')) bounds.second = next_is('}') ? -1 : count();
      if (!take('}')) refuse("has a '{' that is no quantifier");
      if (bounds.second >= 0 && bounds.second < bounds.first) refuse("has a quantifier whose bounds are out of order");
    } else if (!take('*')) {
      return std::nullopt;
    }
    take('?');
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{')) refuse("has a quantifier after a quantifier");
    return bounds;
  }

  std::int32_t count() {
    std::int32_t value = 0;
    if (at_end() || pattern_[place_] < '0' || pattern_[place_] > '9') refuse("has a '{' that is no quantifier");
    while (!at_end() && pattern_[place_] >= '0' && pattern_[place_] <= '9') {
      value = value * 10 + static_cast<std::int32_t>(pattern_[place_++] - '0');
      if (value > kMostRepeats) refuse("repeats more than " + std::to_string(kMostRepeats) + " times");
    }
    return value;
  }

  Fragment atom() {
    const std::uint32_t point = take_any();
    switch (point) {
      case '(':
        return group();
      case '[':
        return spell_canonically(nfa_, bracketed());
      case '.':
        return spell_canonically(nfa_, complement(line_ends()));
      case '\\':
        return spell_canonically(nfa_, escaped(/*in_class=*/false));
      case '^':
        refuse_unsupported("'^' other than at the beginning");
      case '*':
      case '+':
      case '?':
      case '{':
        refuse("has a quantifier with nothing before it");
      default:
        return spell_canonically(nfa_, {{point, point}});
    }
  }

  CodePoints bracketed() {
    const bool negated = take('^');
    CodePoints points;
    while (!take(']')) {
      const CodePoints first = class_atom();
      const bool single = first.size() == 1 && first[0].first == first[0].last;
      // A '-' just before the ']' is a literal.
      const bool is_range = next_is('-') && place_ + 1 < pattern_.size() && pattern_[place_ + 1] != ']';
      if (!is_range) {
        points.insert(points.end(), first.begin(), first.end());
        continue;
      }
      take('-');
      const CodePoints last = class_atom();
      if (!single || last.size() != 1 || last[0].first != last[0].last || last[0].first < first[0].first) {
        refuse("has a range in [ ] that is out of order");
      }
      points.push_back({first[0].first, last[0].first});
    }
    budget_.take_steps(points.size());  // they are sorted; \S alone has eleven ranges
    return negated ? complement(points) : points;
  }

  CodePoints class_atom() {
    const std::uint32_t point = take_any();
    if (point == '\\') return escaped(/*in_class=*/true);
    return {{point, point}};
  }

  CodePoints escaped(bool in_class) {
    const std::uint32_t point = take_any();
    switch (point) {
      case 'd':
        return digits();
      case 'D':
        return complement(digits());
      case 'w':
        return word_characters();
      case 'W':
        return complement(word_characters());
      case 's':
        return blanks();
      case 'S':
        return complement(blanks());
      case 't':
        return {{'\t', '\t'}};
      case 'n':
        return {{'\n', '\n'}};
      case 'v':
        return {{0x0B, 0x0B}};
      case 'f':
        return {{'\f', '\f'}};
      case 'r':
        return {{'\r', '\r'}};
      case 'x':
        return hex_digits(2);
      case 'u':
        return hex_digits(4);
      default:
        break;
    }
    if (point == 'b' && in_class) return {{'\b', '\b'}};
    if (point == '0' && (at_end() || pattern_[place_] < '0' || pattern_[place_] > '9')) return {{0, 0}};
    const bool named =
        (point >= '0' && point <= '9') || (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z');
    if (named) refuse_unsupported(std::string("'\\") + static_cast<char>(point) + "'");
    return {{point, point}};
  }

  CodePoints hex_digits(int n) {
    std::uint32_t value = 0;
    for (int i = 0; i < n; ++i) {
      const std::uint32_t digit = take_any();
      const std::string_view all = "0123456789abcdef";
      const auto found = digit < 0x80 ? all.find(static_cast<char>(digit | (digit >= 'A' ? 0x20U : 0U))) : all.npos;
      if (found == all.npos) refuse("has an escape with a bad hexadecimal digit");
      value = value << 4 | static_cast<std::uint32_t>(found);
    }
    if (value >= 0xD800 && value <= 0xDFFF) refuse_unsupported("surrogates: write the character itself");
    return {{value, value}};
  }

  const std::vector<std::uint32_t> pattern_;
  AutomatonBudget& budget_;
  ByteNfa nfa_;
  std::size_t place_ = 0;
  int depth_ = 0;
};

}  // namespace

ByteAutomaton pattern_automaton(std::string_view pattern, AutomatonBudget& budget) {
  return PatternReader(pattern, budget).read();
}

}  // namespace slip
