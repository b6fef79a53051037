// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/chat_template/template_tree.h"
#include "text/chat_template/template_words.h"

namespace slip {

// A parser of the expressions in a template's tag, with Jinja's precedence: inline if, or, and, not, comparison, + and
// −, ~, * // %, sign, then names and literals with attributes, calls, filters and tests. Throws template_error() that
// names the first unsupported construct.
class TemplateExpressions {
 public:
  explicit TemplateExpressions(TemplateWords& words) : words_(words) {}

  TemplateExpression any();          // an inline if, or anything that binds tighter
  TemplateExpression alternative();  // `or`, or anything that binds tighter: the operand of `for … in` and of `if`
  TemplateExpression tuple();        // any(), or a list if commas follow
  // Applies the filters that follow, as in `{% set x %}`, to `value`.
  TemplateExpression filtered(TemplateExpression value);

 private:
  using Op = TemplateExpression::Op;
  using Level = TemplateExpression (TemplateExpressions::*)();
  TemplateExpression chain(Op op, std::string_view name, Level next);
  TemplateExpression conjunction();
  TemplateExpression negation();
  TemplateExpression comparison();
  TemplateExpression sum();
  TemplateExpression concatenation();
  TemplateExpression product();
  TemplateExpression signed_value(bool with_filters);
  TemplateExpression primary();
  TemplateExpression named(std::string name);
  TemplateExpression integer();
  TemplateExpression string();
  TemplateExpression in_parentheses();
  TemplateExpression list();
  TemplateExpression map();
  TemplateExpression with_attributes(TemplateExpression value);
  TemplateExpression item(TemplateExpression value);
  TemplateExpression test(TemplateExpression value);
  void arguments(TemplateExpression& call);
  TemplateExpression literal(TemplateValue value) const;
  TemplateExpression make(Op op, std::vector<TemplateExpression> operands = {}) const;
  TemplateExpression make(Op op, TemplateExpression left, TemplateExpression right) const;

  TemplateWords& words_;
  int depth_ = 0;
};

}  // namespace slip
