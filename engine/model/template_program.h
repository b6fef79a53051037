// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace slip {

// A chat template understood: the few things such a template computes, each its own operation, so that what is not
// supported is refused when the template is read and rendering cannot fail on it.
struct TemplateExpression {
  enum class Op : std::uint8_t {
    kText,     // a literal or a token's spelling
    kRole,     // of the loop's message
    kContent,  // of the loop's message
    kConcat,
    kTrim,
    kBoolean,   // a literal
    kFirst,     // loop.first
    kLast,      // loop.last
    kGenerate,  // add_generation_prompt
    kEqual,
    kNotEqual,
    kAnd,
    kOr,
    kNot,
  };
  Op op = Op::kText;
  std::string text;
  bool boolean = false;
  std::vector<TemplateExpression> operands;
  bool is_text() const { return op <= Op::kTrim; }
};

struct TemplateNode {
  enum class Kind : std::uint8_t { kText, kOutput, kFor, kIf };
  Kind kind = Kind::kText;
  std::string text;
  TemplateExpression expression;        // output, or the condition
  std::vector<TemplateNode> body;       // of a loop over the messages, or of the condition holding
  std::vector<TemplateNode> otherwise;  // of the condition not holding
};

// `tokens` gives the spelling of bos_token and its like. Throws Error{kUnsupported} naming the first construct beyond
// the subset, Error{kTooLarge} for templates over 64 KiB.
std::vector<TemplateNode> parse_template(std::string_view source, const std::map<std::string, std::string>& tokens);

}  // namespace slip
