// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template/template_builtins.h"
#include "text/chat_template/template_tree.h"

namespace slip {

// One rendering of a chat template. Scopes follow Jinja: a loop iteration, a macro call and a generation block open a
// scope, `if` does not. A macro sees its own scope and the template's.
class TemplateInterpreter {
 public:
  using Names = std::vector<std::pair<std::string, TemplateValue>>;

  explicit TemplateInterpreter(Names names) : frames_{std::move(names)} {}
  // Throws TemplateWork's errors: Error{kInvalidArgument | kTooLarge} naming the line.
  TemplateText run(const std::vector<TemplateNode>& program);

 private:
  enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

  // Statements, in template_interpreter.cpp.
  Flow run_block(const std::vector<TemplateNode>& nodes);
  Flow run_node(const TemplateNode& node);
  Flow run_round(const TemplateNode& node, const TemplateValue& item, TemplateValue loop);
  void run_loop(const TemplateNode& node);
  void set(const TemplateNode& node);
  void set_attribute(const std::string& space, const std::string& name, TemplateValue value);
  TemplateText output_of(const std::vector<TemplateNode>& body);  // in a new scope
  TemplateValue call_macro(const TemplateNode& macro, const TemplateArguments& call);
  void emit(const TemplateText& text);

  TemplateValue find(const std::string& name) const;
  void define(const std::string& name, TemplateValue value);  // in the innermost frame
  void define_all(const std::vector<std::string>& names, const TemplateValue& value);

  // Expressions, in template_evaluation.cpp.
  TemplateValue value_of(const TemplateExpression& expression);
  TemplateValue operand(const TemplateExpression& expression, std::size_t i) {
    return value_of(expression.operands[i]);
  }
  bool holds(const TemplateExpression& expression) { return value_of(expression).truth(); }
  TemplateValue list(const TemplateExpression& expression);
  TemplateValue map(const TemplateExpression& expression);
  TemplateValue conditional(const TemplateExpression& expression);
  TemplateValue call(const TemplateExpression& expression);
  TemplateArguments arguments(const TemplateExpression& expression, std::string callee);
  TemplateValue concatenated(const TemplateExpression& expression);
  TemplateValue sum(const TemplateValue& a, const TemplateValue& b);
  TemplateValue product(const TemplateValue& a, const TemplateValue& b);
  TemplateValue arithmetic(TemplateExpression::Op op, const TemplateValue& a, const TemplateValue& b);

  std::vector<Names> frames_;     // the first frame is the template's global scope
  std::size_t visible_from_ = 0;  // first visible frame; frame 0 is always visible
  TemplateText out_;
  TemplateWork work_;
};

}  // namespace slip
