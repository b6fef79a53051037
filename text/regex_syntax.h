// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// Translate a tokenizer.json pattern from Oniguruma (Ruby's syntax, Unicode) to PCRE2: \s, \w and \b by Oniguruma's
// Unicode properties, \p{Han} without the script's extensions, \uHHHH. Throws Error{kUnsupported} for syntax that the
// two engines read differently and that has no local rewrite: \h, \W in a class, class operations, {n,m}+, (?m).
std::string pcre2_syntax(std::string_view pattern);

}  // namespace slip
