// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_template/template_expressions.h"
#include "text/chat_template/template_nesting.h"
#include "text/chat_template/template_source.h"
#include "text/chat_template/template_words.h"

namespace slip {

namespace {

using Kind = TemplateNode::Kind;
using Nodes = std::vector<TemplateNode>;

constexpr std::size_t kMaxSourceBytes = 64 * 1024;

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<TemplatePart> parts) : parts_(std::move(parts)) {}

  Nodes parse() {
    Nodes nodes = block();
    if (at_ < parts_.size()) refuse("{% " + verb() + " %} without its beginning");
    return nodes;
  }

 private:
  const TemplatePart& part() const { return parts_[at_]; }
  std::string verb() const { return TemplateWords(part().text, part().line).peek().text; }
  bool is_verb(std::string_view wanted) const { return at_ < parts_.size() && verb() == wanted; }
  [[noreturn]] void refuse(const std::string& construct) const {
    throw template_error(construct, at_ < parts_.size() ? part().line : parts_.empty() ? 1 : parts_.back().line);
  }

  // Reads nodes up to the end, or up to a statement that ends or continues the enclosing block.
  Nodes block() {
    constexpr std::array<std::string_view, 7> kClosing{"elif",     "else",   "endif",        "endfor",
                                                       "endmacro", "endset", "endgeneration"};
    const TemplateNesting deeper(depth_, at_ < parts_.size() ? part().line : 0);
    Nodes nodes;
    for (; at_ < parts_.size(); ++at_) {
      if (part().kind == TemplatePart::Kind::kText) {
        nodes.push_back(node(Kind::kText));
        nodes.back().text = part().text;
      } else if (part().kind == TemplatePart::Kind::kOutput) {
        nodes.push_back(output());
      } else {
        const std::string word = verb();
        if (std::find(kClosing.begin(), kClosing.end(), word) != kClosing.end()) return nodes;
        nodes.push_back(statement(word));
      }
    }
    return nodes;
  }

  TemplateNode node(Kind kind) const {
    TemplateNode out;
    out.kind = kind;
    out.line = part().line;
    return out;
  }

  TemplateNode output() const {
    TemplateNode out = node(Kind::kOutput);
    TemplateWords words(part().text, part().line);
    out.expression.push_back(TemplateExpressions(words).tuple());
    words.expect_end();
    return out;
  }

  // Leaves at_ on the closing statement; the loop in block() steps over it.
  TemplateNode statement(const std::string& word) {
    if (word == "if") return conditional();
    if (word == "for") return loop();
    if (word == "set") return assignment();
    if (word == "macro") return macro();
    if (word == "generation") return generation();
    if (word == "break" || word == "continue") {
      if (loops_ == 0) refuse("{% " + word + " %} outside of a loop");
      expect_bare(word);
      return node(word == "break" ? Kind::kBreak : Kind::kContinue);
    }
    refuse("{% " + word + " %}");
  }

  TemplateNode conditional() {
    const TemplateNesting deeper(depth_, part().line);
    TemplateNode out = node(Kind::kIf);
    TemplateWords words(part().text, part().line);
    words.take();
    out.expression.push_back(TemplateExpressions(words).alternative());
    words.expect_end();
    ++at_;
    out.body = block();
    if (is_verb("elif")) {
      out.otherwise.push_back(conditional());
      return out;
    }
    out.otherwise = block_behind_else();
    expect_bare("endif");
    return out;
  }

  Nodes block_behind_else() {
    if (!is_verb("else")) return {};
    expect_bare("else");
    ++at_;
    return block();
  }

  TemplateNode loop() {
    TemplateNode out = node(Kind::kFor);
    TemplateWords words(part().text, part().line);
    words.take();
    do {
      out.names.push_back(words.expect_name());
    } while (words.take_sign(","));
    if (!words.take_name("in")) words.refuse();
    out.expression.push_back(TemplateExpressions(words).alternative());
    if (words.take_name("if")) out.condition.push_back(TemplateExpressions(words).alternative());
    words.expect_end();
    ++at_;
    ++loops_;
    out.body = block();
    --loops_;
    out.otherwise = block_behind_else();
    expect_bare("endfor");
    return out;
  }

  // {% set x = … %}, {% set x, y = … %}, {% set space.x = … %} and {% set x %}…{% endset %}
  TemplateNode assignment() {
    TemplateNode out = node(Kind::kSet);
    TemplateWords words(part().text, part().line);
    words.take();
    do {
      out.names.push_back(words.expect_name());
    } while (words.take_sign(","));
    if (out.names.size() == 1 && words.take_sign(".")) {
      out.text = std::exchange(out.names[0], words.expect_name());
    }
    if (words.take_sign("=")) {
      out.expression.push_back(TemplateExpressions(words).tuple());
      words.expect_end();
      return out;
    }
    if (out.names.size() > 1 || !out.text.empty()) words.refuse();
    words.expect_end();
    out.kind = Kind::kSetBlock;
    out.body = separate_block();
    expect_bare("endset");
    return out;
  }

  // Reads a body that {% break %} and {% continue %} cannot leave.
  Nodes separate_block() {
    ++at_;
    const int loops = std::exchange(loops_, 0);
    Nodes body = block();
    loops_ = loops;
    return body;
  }

  TemplateNode macro() {
    // A macro sees only its own names and the template's. Inside a loop it could mean the loop's names, so it is
    // refused.
    if (loops_ > 0 || in_macro_) refuse("a macro inside a loop or a macro");
    TemplateNode out = node(Kind::kMacro);
    TemplateWords words(part().text, part().line);
    words.take();
    out.text = words.expect_name();
    words.expect_sign("(");
    while (!words.take_sign(")")) {
      out.names.push_back(words.expect_name());
      if (words.take_sign("=")) {
        out.defaults.push_back(TemplateExpressions(words).any());
      } else if (!out.defaults.empty()) {
        words.refuse("a parameter without a default behind one with");
      }
      if (!words.is_sign(")")) words.expect_sign(",");
    }
    words.expect_end();
    in_macro_ = true;
    out.body = separate_block();
    in_macro_ = false;
    expect_bare("endmacro");
    return out;
  }

  // {% generation %} marks the assistant's text for training; rendering ignores it.
  TemplateNode generation() {
    TemplateNode out = node(Kind::kBlock);
    expect_bare("generation");
    out.body = separate_block();
    expect_bare("endgeneration");
    return out;
  }

  void expect_bare(std::string_view wanted) const {
    if (!is_verb(wanted)) refuse("a block without its {% " + std::string(wanted) + " %}");
    TemplateWords words(part().text, part().line);
    words.take();
    words.expect_end();
  }

  std::vector<TemplatePart> parts_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  bool in_macro_ = false;
};

}  // namespace

Nodes parse_template(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    throw Error(ErrorCode::kTooLarge, "the chat template is over 64 KiB", {}, "chat_template");
  }
  return TemplateParser(cut_template(source)).parse();
}

}  // namespace slip
