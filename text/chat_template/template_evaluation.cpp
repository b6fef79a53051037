// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "text/chat_template/template_interpreter.h"

namespace slip {

namespace {

using Expression = TemplateExpression;
using Op = TemplateExpression::Op;

// Integer division rounded down, as in Python.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace

TemplateValue TemplateInterpreter::value_of(const Expression& expression) {
  const TemplateWork::Level level(work_);
  work_.at(expression.line);
  work_.spend(1);
  switch (expression.op) {
    case Op::kLiteral:
      return expression.literal;
    case Op::kName:
      return find(expression.name);
    case Op::kList:
      return list(expression);
    case Op::kMap:
      return map(expression);
    case Op::kAttribute:
      return attribute_of(operand(expression, 0), expression.name, work_);
    case Op::kItem:
      return item_of(operand(expression, 0), operand(expression, 1), work_);
    case Op::kSlice:
      return slice_of(operand(expression, 0), operand(expression, 1), operand(expression, 2), operand(expression, 3),
                      work_);
    case Op::kCall:
      return call(expression);
    case Op::kFilter:
      return apply_filter(operand(expression, 0), arguments(expression, expression.name), work_);
    case Op::kTest:
      return TemplateValue::boolean(apply_test(operand(expression, 0), arguments(expression, expression.name), work_));
    case Op::kConditional:
      return conditional(expression);
    case Op::kAnd:
    case Op::kOr: {
      TemplateValue left = operand(expression, 0);
      return left.truth() == (expression.op == Op::kAnd) ? operand(expression, 1) : left;
    }
    case Op::kNot:
      return TemplateValue::boolean(!holds(expression.operands[0]));
    case Op::kNegative:
      return arithmetic(Op::kSubtract, TemplateValue::integer(0), operand(expression, 0));
    case Op::kAdd:
      return sum(operand(expression, 0), operand(expression, 1));
    case Op::kMultiply:
      return product(operand(expression, 0), operand(expression, 1));
    case Op::kSubtract:
    case Op::kFloorDivide:
    case Op::kRemainder:
      return arithmetic(expression.op, operand(expression, 0), operand(expression, 1));
    case Op::kConcat:
      return concatenated(expression);
    case Op::kEqual:
      return TemplateValue::boolean(equal(operand(expression, 0), operand(expression, 1), work_));
    case Op::kLess:
      return TemplateValue::boolean(less(operand(expression, 0), operand(expression, 1), work_));
    case Op::kLessOrEqual:
      return TemplateValue::boolean(!less(operand(expression, 1), operand(expression, 0), work_));
    case Op::kIn:
      return TemplateValue::boolean(contains(operand(expression, 1), operand(expression, 0), work_));
  }
  work_.fail("an expression of no kind");
}

TemplateValue TemplateInterpreter::list(const Expression& expression) {
  TemplateValue::Items items;
  for (const Expression& item : expression.operands) items.push_back(value_of(item));
  return TemplateValue::list(std::move(items), work_);
}

TemplateValue TemplateInterpreter::map(const Expression& expression) {
  TemplateValue::Map map;
  for (std::size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    const TemplateValue key = operand(expression, i);
    const std::string& name = required_text(key, "a map's key", work_).bytes();
    if (map.find(name) != nullptr) work_.fail("a map's key is repeated");
    map.entries.emplace_back(name, operand(expression, i + 1));
  }
  return TemplateValue::map(std::move(map), work_);
}

TemplateValue TemplateInterpreter::conditional(const Expression& expression) {
  if (holds(expression.operands[1])) return operand(expression, 0);
  return expression.operands.size() > 2 ? operand(expression, 2) : TemplateValue::undefined("an if without else");
}

TemplateArguments TemplateInterpreter::arguments(const Expression& expression, std::string callee) {
  TemplateArguments out{std::move(callee), {}, expression.keywords};
  for (std::size_t i = 1; i < expression.operands.size(); ++i) out.values.push_back(operand(expression, i));
  work_.at(expression.line);
  return out;
}

TemplateValue TemplateInterpreter::call(const Expression& expression) {
  const Expression& callee = expression.operands[0];
  if (callee.op == Op::kAttribute) {
    const TemplateValue object = operand(callee, 0);
    return call_method(object, arguments(expression, callee.name), work_);
  }
  const TemplateValue function = value_of(callee);
  const TemplateArguments given = arguments(expression, callee.name);
  if (const auto* macro = function.as<const TemplateNode*>()) return call_macro(**macro, given);
  if (const auto* known = function.as<TemplateValue::Function>()) return call_function(*known, given, work_);
  work_.fail("a call of " + function.kind());
}

TemplateValue TemplateInterpreter::concatenated(const Expression& expression) {
  TemplateText out;
  for (const Expression& part : expression.operands) {
    const TemplateText next = value_of(part).shown(work_);
    work_.spend_bytes(out.size() + next.size());
    out.append(next);
  }
  return TemplateValue::text(std::move(out));
}

TemplateValue TemplateInterpreter::sum(const TemplateValue& a, const TemplateValue& b) {
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    work_.spend_bytes(a.as_text()->size() + b.as_text()->size());
    TemplateText out = *a.as_text();
    out.append(*b.as_text());
    return TemplateValue::text(std::move(out));
  }
  if (a.as_list() != nullptr && b.as_list() != nullptr) {
    work_.spend(a.as_list()->items.size() + b.as_list()->items.size());
    TemplateValue::Items items = a.as_list()->items;
    items.insert(items.end(), b.as_list()->items.begin(), b.as_list()->items.end());
    return TemplateValue::list(std::move(items), work_);
  }
  return arithmetic(Op::kAdd, a, b);
}

// Product of two numbers, or a text repeated.
TemplateValue TemplateInterpreter::product(const TemplateValue& a, const TemplateValue& b) {
  const TemplateText* text = a.as_text();
  if (text == nullptr || b.as<std::int64_t>() == nullptr) return arithmetic(Op::kMultiply, a, b);
  const std::int64_t times = std::max<std::int64_t>(0, *b.as<std::int64_t>());
  if (text->empty() || times == 0) return TemplateValue::text({});
  if (static_cast<std::uint64_t>(times) > TemplateWork::kMostTextBytes / text->size()) {
    work_.fail("a text is repeated " + std::to_string(times) + " times");
  }
  work_.spend_bytes(text->size() * static_cast<std::size_t>(times));
  TemplateText out;
  for (std::int64_t i = 0; i < times; ++i) out.append(*text);
  return TemplateValue::text(std::move(out));
}

TemplateValue TemplateInterpreter::arithmetic(Op op, const TemplateValue& a, const TemplateValue& b) {
  const std::int64_t left = required_integer(a, work_), right = required_integer(b, work_);
  const bool divides = op == Op::kFloorDivide || op == Op::kRemainder;
  if (divides && right == 0) work_.fail("a division by 0");
  std::int64_t out = 0;
  bool overflows = false;
  if (op == Op::kAdd) overflows = __builtin_add_overflow(left, right, &out);
  if (op == Op::kSubtract) overflows = __builtin_sub_overflow(left, right, &out);
  if (op == Op::kMultiply) overflows = __builtin_mul_overflow(left, right, &out);
  if (divides && right == -1) {  // INT64_MIN / −1 overflows in hardware
    if (op == Op::kFloorDivide) overflows = __builtin_sub_overflow(std::int64_t{0}, left, &out);
  } else if (divides) {
    out = op == Op::kFloorDivide ? floor_divide(left, right) : left - floor_divide(left, right) * right;
  }
  if (overflows) work_.fail("a number over 64 bits");
  return TemplateValue::integer(out);
}

}  // namespace slip
