// SPDX-License-Identifier: Apache-2.0
#include "text/regex_syntax.h"

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
      default:
        return keep(left_.substr(2).starts_with("{") ? brace_end(2) : 2);  // \p{L}, \x{20}
    }
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
