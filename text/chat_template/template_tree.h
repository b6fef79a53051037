// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/chat_template/template_value.h"

namespace slip {

// The syntax tree of a chat template. Operands are in source order, unless a comment says otherwise.
struct TemplateExpression {
  enum class Op : std::uint8_t {
    kLiteral,
    kName,         // name
    kList,         // operands; tuples are lists here
    kMap,          // key, value, key, value, …
    kAttribute,    // operand.name
    kItem,         // operand[operand]
    kSlice,        // operand[operand:operand:operand]; a missing bound is none
    kCall,         // operand(operands); the last ones may be keyword arguments
    kFilter,       // operand|name(operands, …)
    kTest,         // operand is name(operands)
    kConditional,  // operand if operand else operand; the last may be absent
    kAnd,
    kOr,
    kNot,
    kNegative,
    kAdd,
    kSubtract,
    kMultiply,
    kFloorDivide,
    kRemainder,
    kConcat,
    kEqual,
    kLess,
    kLessOrEqual,
    kIn,
  };
  Op op = Op::kLiteral;
  int line = 0;
  int levels = 1;  // depth of nested operands
  std::string name;
  TemplateValue literal;
  std::vector<TemplateExpression> operands;
  std::vector<std::string> keywords;
};

struct TemplateNode {
  enum class Kind : std::uint8_t {
    kText,      // text
    kOutput,    // expression
    kIf,        // expression, body, otherwise
    kFor,       // for names in expression if condition: body; otherwise: run when there were no items
    kSet,       // names = expression; text.names[0] = expression where text is not empty
    kSetBlock,  // names[0] = output of body
    kMacro,     // text(names = defaults): body
    kBlock,     // body in a new scope
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text;
  std::vector<std::string> names;
  std::vector<TemplateExpression> expression;  // one or none
  std::vector<TemplateExpression> condition;   // one or none
  std::vector<TemplateExpression> defaults;    // of the last parameters
  std::vector<TemplateNode> body, otherwise;
};

}  // namespace slip
