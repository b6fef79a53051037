// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace slip {

// A Jinja template cut into literal text, `{{ output }}` and `{% statement %}`, comments dropped. White space around
// tags is settled here, with Hugging Face's settings: a newline after a statement and blanks before one on its line go
// (trim_blocks, lstrip_blocks), `-` takes all of it, the template's last newline goes.
struct TemplatePart {
  enum class Kind : std::uint8_t { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  int line = 1;      // where `text` begins
  std::string text;  // of a tag: what stands between its marks
};

// Error{kUnsupported} for a tag without an end.
std::vector<TemplatePart> cut_template(std::string_view source);

// "the chat template uses … in line 3, which is not supported".
Error template_error(const std::string& construct, int line);

}  // namespace slip
