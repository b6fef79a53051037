// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_expressions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "text/chat_template/template_builtins.h"
#include "text/chat_template/template_nesting.h"

namespace slip {

namespace {

using Expression = TemplateExpression;
using WordKind = TemplateWord::Kind;
using Op = TemplateExpression::Op;

constexpr int kMostLevels = 128;

struct Comparison {
  std::string_view spelling;
  Op op;
  bool swapped, negated;
};
constexpr std::array<Comparison, 6> kComparisons{{{"==", Op::kEqual, false, false},
                                                  {"!=", Op::kEqual, false, true},
                                                  {"<", Op::kLess, false, false},
                                                  {">", Op::kLess, true, false},
                                                  {"<=", Op::kLessOrEqual, false, false},
                                                  {">=", Op::kLessOrEqual, true, false}}};

void append(Expression& to, Expression operand) {
  to.levels = std::max(to.levels, operand.levels + 1);
  to.operands.push_back(std::move(operand));
}

}  // namespace

Expression TemplateExpressions::make(Op op, std::vector<Expression> operands) const {
  Expression out{op, operands.empty() ? words_.line() : operands.front().line, 1, {}, {}, {}, {}};
  for (const Expression& operand : operands) out.levels = std::max(out.levels, operand.levels + 1);
  // Chained terms count too: code that walks the chain recurses once per term.
  if (out.levels > kMostLevels) words_.refuse("an expression of more than 128 levels or terms");
  out.operands = std::move(operands);
  return out;
}

Expression TemplateExpressions::make(Op op, Expression left, Expression right) const {
  std::vector<Expression> operands;
  operands.push_back(std::move(left));
  operands.push_back(std::move(right));
  return make(op, std::move(operands));
}

Expression TemplateExpressions::literal(TemplateValue value) const {
  Expression out = make(Op::kLiteral);
  out.literal = std::move(value);
  return out;
}

Expression TemplateExpressions::any() {
  const TemplateNesting deeper(depth_, words_.line());
  Expression value = alternative();
  while (words_.take_name("if")) {
    Expression conditional = make(Op::kConditional, std::move(value), alternative());
    value = std::move(conditional);
    if (words_.take_name("else")) append(value, any());
  }
  return value;
}

Expression TemplateExpressions::tuple() {
  Expression first = any();
  if (!words_.is_sign(",")) return first;
  Expression list = make(Op::kList, {std::move(first)});
  while (words_.take_sign(",")) {
    if (words_.peek().kind == WordKind::kEnd || words_.is_sign(")")) break;
    append(list, any());
  }
  return list;
}

Expression TemplateExpressions::alternative() {
  return chain(Op::kOr, "or", &TemplateExpressions::conjunction);
}

Expression TemplateExpressions::conjunction() {
  return chain(Op::kAnd, "and", &TemplateExpressions::negation);
}

Expression TemplateExpressions::chain(Op op, std::string_view name, Level next) {
  Expression left = (this->*next)();
  while (words_.take_name(name)) left = make(op, std::move(left), (this->*next)());
  return left;
}

Expression TemplateExpressions::negation() {
  const TemplateNesting deeper(depth_, words_.line());
  return words_.take_name("not") ? make(Op::kNot, {negation()}) : comparison();
}

Expression TemplateExpressions::comparison() {
  Expression left = sum();
  const auto sign = std::find_if(kComparisons.begin(), kComparisons.end(),
                                 [&](const Comparison& known) { return words_.is_sign(known.spelling); });
  const bool is_sign = sign != kComparisons.end();
  if (!is_sign && !words_.is_name("in") && !words_.is_name("not")) return left;
  const bool negated = is_sign ? sign->negated : words_.is_name("not");
  words_.take();
  if (!is_sign && negated && !words_.take_name("in")) words_.refuse();
  Expression right = sum();
  if (is_sign && sign->swapped) std::swap(left, right);
  Expression both = make(is_sign ? sign->op : Op::kIn, std::move(left), std::move(right));
  const bool again =
      words_.is_name("in") || std::any_of(kComparisons.begin(), kComparisons.end(),
                                          [&](const auto& known) { return words_.is_sign(known.spelling); });
  if (again) words_.refuse("a chain of comparisons");
  return negated ? make(Op::kNot, {std::move(both)}) : both;
}

Expression TemplateExpressions::sum() {
  Expression left = concatenation();
  while (words_.is_sign("+") || words_.is_sign("-")) {
    const Op op = words_.take().text == "+" ? Op::kAdd : Op::kSubtract;
    left = make(op, std::move(left), concatenation());
  }
  return left;
}

Expression TemplateExpressions::concatenation() {
  Expression first = product();
  if (!words_.is_sign("~")) return first;
  Expression all = make(Op::kConcat, {std::move(first)});
  while (words_.take_sign("~")) append(all, product());
  return all;
}

Expression TemplateExpressions::product() {
  Expression left = signed_value(/*with_filters=*/true);
  while (words_.is_sign("*") || words_.is_sign("//") || words_.is_sign("%")) {
    // Computed before the word is taken: GCC 12 warns falsely about a std::string that is compared twice.
    const Op op = words_.is_sign("*") ? Op::kMultiply : words_.is_sign("//") ? Op::kFloorDivide : Op::kRemainder;
    words_.take();
    left = make(op, std::move(left), signed_value(/*with_filters=*/true));
  }
  return left;
}

Expression TemplateExpressions::signed_value(bool with_filters) {
  const TemplateNesting deeper(depth_, words_.line());
  Expression value =
      words_.take_sign("-") ? make(Op::kNegative, {signed_value(/*with_filters=*/false)}) : with_attributes(primary());
  return with_filters ? filtered(std::move(value)) : value;
}

Expression TemplateExpressions::primary() {
  switch (words_.peek().kind) {
    case WordKind::kName:
      return named(words_.take().text);
    case WordKind::kInteger:
      return integer();
    case WordKind::kString:
      return string();
    default:
      break;
  }
  if (words_.take_sign("(")) return in_parentheses();
  if (words_.take_sign("[")) return list();
  if (words_.take_sign("{")) return map();
  words_.refuse();
}

Expression TemplateExpressions::named(std::string name) {
  if (name == "true" || name == "True") return literal(TemplateValue::boolean(true));
  if (name == "false" || name == "False") return literal(TemplateValue::boolean(false));
  if (name == "none" || name == "None") return literal(TemplateValue::none());
  Expression value = make(Op::kName);
  value.name = std::move(name);
  return value;
}

Expression TemplateExpressions::integer() {
  const std::string digits = words_.take().text;
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failed != std::errc() || end != digits.data() + digits.size()) words_.refuse("the number " + digits);
  if (words_.is_sign(".")) words_.refuse("the number " + digits + ".");
  return literal(TemplateValue::integer(number));
}

// Adjacent string literals are concatenated.
Expression TemplateExpressions::string() {
  std::string text;
  while (words_.peek().kind == WordKind::kString) text += words_.take().text;
  return literal(TemplateValue::text(TemplateText::own(std::move(text))));
}

Expression TemplateExpressions::in_parentheses() {
  if (words_.take_sign(")")) return make(Op::kList);
  Expression inner = tuple();
  words_.expect_sign(")");
  return inner;
}

Expression TemplateExpressions::list() {
  Expression value = make(Op::kList);
  while (!words_.take_sign("]")) {
    append(value, any());
    if (!words_.is_sign("]")) words_.expect_sign(",");
  }
  return value;
}

Expression TemplateExpressions::map() {
  Expression value = make(Op::kMap);
  while (!words_.take_sign("}")) {
    append(value, any());
    words_.expect_sign(":");
    append(value, any());
    if (!words_.is_sign("}")) words_.expect_sign(",");
  }
  return value;
}

Expression TemplateExpressions::with_attributes(Expression value) {
  while (true) {
    if (words_.take_sign(".")) {
      if (words_.peek().kind == WordKind::kInteger) {
        value = make(Op::kItem, std::move(value), integer());
        continue;
      }
      std::string name = words_.expect_name();
      value = make(Op::kAttribute, {std::move(value)});
      value.name = std::move(name);
    } else if (words_.take_sign("[")) {
      value = item(std::move(value));
    } else if (words_.take_sign("(")) {
      value = make(Op::kCall, {std::move(value)});
      arguments(value);
    } else {
      return value;
    }
  }
}

// [i] and [begin:end:step]
Expression TemplateExpressions::item(Expression value) {
  if (words_.is_sign("]")) words_.refuse("an empty index");
  Expression out = make(Op::kItem, {std::move(value)});
  do {
    if (out.operands.size() > 3) words_.refuse("a slice of four parts");
    const bool absent = words_.is_sign(":") || words_.is_sign("]");
    append(out, absent ? literal(TemplateValue::none()) : any());
    if (words_.is_sign(":")) out.op = Op::kSlice;
  } while (words_.take_sign(":"));
  words_.expect_sign("]");
  while (out.op == Op::kSlice && out.operands.size() < 4) append(out, literal(TemplateValue::none()));
  return out;
}

// Reads the arguments after "(": positional ones, then keyword ones.
void TemplateExpressions::arguments(Expression& call) {
  while (!words_.take_sign(")")) {
    if (words_.is_sign("*") || words_.is_sign("**")) words_.refuse("arguments from a list");
    Expression value = any();
    if (words_.take_sign("=")) {
      if (value.op != Op::kName) words_.refuse("an argument without a name");
      call.keywords.push_back(value.name);
      value = any();
    } else if (!call.keywords.empty()) {
      words_.refuse("an argument without a name behind one with");
    }
    append(call, std::move(value));
    if (!words_.is_sign(")")) words_.expect_sign(",");
  }
}

Expression TemplateExpressions::filtered(Expression value) {
  while (true) {
    if (words_.take_sign("|")) {
      const bool known = words_.peek().kind == WordKind::kName && is_template_filter(words_.peek().text);
      if (!known) words_.refuse("the filter \"" + words_.peek().text + "\"");
      value = make(Op::kFilter, {std::move(value)});
      value.name = words_.take().text;
      if (words_.take_sign("(")) arguments(value);
    } else if (words_.take_name("is")) {
      value = test(std::move(value));
    } else if (words_.is_sign("(")) {
      words_.refuse("a call of a filter's result");
    } else {
      return value;
    }
  }
}

Expression TemplateExpressions::test(Expression value) {
  const bool negated = words_.take_name("not");
  Expression out = make(Op::kTest, {std::move(value)});
  const bool known = words_.peek().kind == WordKind::kName && is_template_test(words_.peek().text);
  if (!known) words_.refuse("the test \"" + words_.peek().text + "\"");
  out.name = words_.take().text;
  const WordKind next = words_.peek().kind;
  const bool value_follows = next == WordKind::kInteger || next == WordKind::kString || words_.is_sign("[") ||
                             (next == WordKind::kName && !words_.is_name("else") && !words_.is_name("or") &&
                              !words_.is_name("and") && !words_.is_name("if") && !words_.is_name("is"));
  if (words_.take_sign("(")) {
    arguments(out);
  } else if (value_follows && template_test_takes_value(out.name)) {
    append(out, with_attributes(primary()));
  }
  return negated ? make(Op::kNot, {std::move(out)}) : out;
}

}  // namespace slip
