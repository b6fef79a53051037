// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace slip {

// One part of a Jinja template: literal text, `{{ output }}` or `{% statement %}`; comments are dropped. White space is
// already stripped with Hugging Face's settings: the newline after a statement (trim_blocks), blanks before one on its
// line (lstrip_blocks), white space beside `-`, and the template's last newline.
struct TemplatePart {
  enum class Kind : std::uint8_t { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  int line = 1;      // line in which `text` begins
  std::string text;  // of a tag: without its marks
};

// Throws Error{kUnsupported} for a tag without an end.
std::vector<TemplatePart> cut_template(std::string_view source);

// Error "the chat template uses … in line 3, which is not supported".
Error template_error(const std::string& construct, int line);

}  // namespace slip
