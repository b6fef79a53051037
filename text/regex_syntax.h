// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// A pattern of tokenizer.json, written for Oniguruma (Ruby's syntax, Unicode), as PCRE2 understands it: \s, \w and \b
// by Oniguruma's Unicode properties, \uHHHH. Error{kUnsupported} for what the two engines read differently and cannot
// be rewritten in place: \h, \W in a class, class operations, {n,m}+, (?m).
std::string pcre2_syntax(std::string_view pattern);

}  // namespace slip
