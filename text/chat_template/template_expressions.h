// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/chat_template/template_tree.h"
#include "text/chat_template/template_words.h"

namespace slip {

// Reads the expressions in a template's tag with Jinja's precedence: inline if, or, and, not, comparison, + and −, ~,
// * // %, sign, then names and literals with their attributes, calls, filters and tests. Throws what template_error()
// makes, naming the first construct that is not supported.
class TemplateExpressions {
 public:
  explicit TemplateExpressions(TemplateWords& words) : words_(words) {}

  TemplateExpression any();          // an inline if or what is stronger
  TemplateExpression alternative();  // `or` or what is stronger: what `for … in` and `if` take
  TemplateExpression tuple();        // any(), or a list where commas follow
  // Filters behind `{% set x %}` and the like: of `value`.
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
