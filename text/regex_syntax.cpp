// SPDX-License-Identifier: Apache-2.0
#include "text/regex_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <unicode/uchar.h>

#include <array>
#include <charconv>

#include "common/error.h"

namespace slip {

namespace {

// The members of \s: Unicode White_Space, as in Oniguruma. PCRE2's \s also includes U+180E.
constexpr std::string_view kSpaces =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// The members of \w by Unicode Technical Standard 18. PCRE2's \w has only letters, numbers and the underscore.
constexpr std::string_view kWords = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

[[noreturn]] void refuse(std::string_view what) {
  throw Error(ErrorCode::kUnsupported, "the pattern uses " + std::string(what) + ", which is not supported");
}

std::string in_brackets(std::string_view members, bool negated = false) {
  return (negated ? "[^" : "[") + std::string(members) + "]";
}

// PCRE2 10.40 is the first that reads a bare script as Script_Extensions, and the first that knows "sc:".
bool knows_script_extensions() {
  static const bool known = [] {
    std::array<char, 64> version{};  // "10.42 2022-12-11"
    pcre2_config(PCRE2_CONFIG_VERSION, version.data());
    int major = 0, minor = 0;
    const auto parsed = std::from_chars(version.begin(), version.end(), major);
    if (parsed.ptr != version.end()) std::from_chars(parsed.ptr + 1, version.end(), minor);
    return major > 10 || (major == 10 && minor >= 40);
  }();
  return known;
}

bool is_script(std::string_view name) {  // names of up to two letters are categories
  return name.size() > 2 && u_getPropertyValueEnum(UCHAR_SCRIPT, std::string(name).c_str()) != UCHAR_INVALID_CODE;
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : left_(pattern) {}

  std::string rewrite() {
    while (!left_.empty()) {
      if (left_.front() == '\\' && left_.size() > 1) {
        escape();
      } else if (in_class_) {
        class_member();
      } else {
        plain();
      }
    }
    return std::move(out_);
  }

 private:
  void keep(std::size_t n) {
    out_ += left_.substr(0, n);
    left_.remove_prefix(n);
  }

  void replace(std::size_t n, std::string_view by) {
    out_ += by;
    left_.remove_prefix(n);
  }

  // The position after the brace that closes the one at `begin`.
  std::size_t brace_end(std::size_t begin) const {
    const std::size_t end = left_.find('}', begin);
    return end == std::string_view::npos ? left_.size() : end + 1;
  }

  void escape() {
    const std::string word = in_brackets(kWords);
    switch (left_[1]) {
      case 's':
        return replace(2, in_class_ ? std::string(kSpaces) : in_brackets(kSpaces));
      case 'S':
        return in_class_ ? keep(2) : replace(2, in_brackets(kSpaces, /*negated=*/true));
      case 'w':
        return replace(2, in_class_ ? std::string(kWords) : word);
      case 'W':
        if (in_class_) refuse("\\W in a class");
        return replace(2, in_brackets(kWords, /*negated=*/true));
      case 'b':
        return in_class_ ? keep(2)
                         : replace(2, "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))");
      case 'B':
        return in_class_ ? keep(2)
                         : replace(2, "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))");
      case 'h':
      case 'H':
        refuse("\\h");  // Oniguruma: a hexadecimal digit; PCRE2: horizontal white space
      case 'u':
        if (left_.size() < 6) refuse("a short \\u");
        out_ += "\\x{" + std::string(left_.substr(2, 4)) + "}";
        return left_.remove_prefix(6);
      case 'p':
      case 'P':
        return property();
      default:
        return keep(left_.substr(2).starts_with("{") ? brace_end(2) : 2);  // \x{20}
    }
  }

  // \p{Han}: Oniguruma takes the characters of the script, PCRE2 also those that it shares with other scripts.
  void property() {
    if (!left_.substr(2).starts_with("{")) return keep(2);  // \pL
    const std::size_t end = brace_end(2);
    const std::size_t name = left_.substr(3).starts_with("^") ? 4 : 3;
    if (name + 1 < end && is_script(left_.substr(name, end - name - 1)) && knows_script_extensions()) {
      keep(name);
      out_ += "sc:";
      return keep(end - name);
    }
    keep(end);
  }

  void class_member() {
    if (left_.starts_with("&&")) refuse("a class operation");
    if (left_.front() == '[' && !left_.starts_with("[:")) refuse("a class in a class");
    if (left_.starts_with("[:")) {
      const std::size_t end = left_.find(":]");
      if (end == std::string_view::npos) refuse("an open POSIX class");
      return keep(end + 2);
    }
    if (left_.front() == ']') in_class_ = false;
    keep(1);
  }

  void plain() {
    if (left_.front() == '{' && left_.substr(brace_end(0)).starts_with("+")) {
      refuse("{n,m}+");  // Oniguruma: a repeated repetition; PCRE2: possessive
    }
    if (left_.starts_with("(?") && !left_.starts_with("(?<") && !left_.starts_with("(?#")) {
      const std::string_view flags = left_.substr(2, left_.find_first_of(":)=!", 2) - 2);
      if (flags.size() < 8 && flags.find('m') != std::string_view::npos) refuse("(?m)");
    }
    if (left_.front() != '[') return keep(1);
    in_class_ = true;
    keep(left_.starts_with("[^") ? 2 : 1);
  }

  std::string_view left_;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

std::string pcre2_syntax(std::string_view pattern) {
  return Rewriter(pattern).rewrite();
}

}  // namespace slip
