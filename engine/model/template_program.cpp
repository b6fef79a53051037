// SPDX-License-Identifier: Apache-2.0
#include "engine/model/template_program.h"

#include <array>
#include <utility>

#include "engine/model/template_source.h"
#include "engine/model/template_words.h"

namespace slip {

namespace {

using Expression = TemplateExpression;
using Op = TemplateExpression::Op;

constexpr std::size_t kMaxSourceBytes = 64 * 1024;
constexpr int kMaxDepth = 32;

// Guards the recursive descent against a template made of parentheses.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) {
    if (++depth_ > kMaxDepth) throw template_error("more than 32 levels of nesting");
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;

 private:
  int& depth_;
};

// Names a template may use at a given place.
struct Scope {
  const std::map<std::string, std::string>& tokens;
  std::string loop_variable;  // empty outside the loop
};

// Jinja's precedence, loosest first: or, and, not, comparison, + and ~, then names with their attributes and filters.
class ExpressionParser {
 public:
  ExpressionParser(TemplateWords& words, const Scope& scope) : words_(words), scope_(scope) {}

  Expression any() { return chain(Op::kOr, "or", &ExpressionParser::conjunction); }

 private:
  using Level = Expression (ExpressionParser::*)();

  Expression chain(Op op, std::string_view name, Level next) {
    const Deeper deeper(depth_);
    Expression left = (this->*next)();
    while (words_.take_name(name)) left = {op, {}, false, {std::move(left), (this->*next)()}};
    return left;
  }

  Expression conjunction() { return chain(Op::kAnd, "and", &ExpressionParser::negation); }

  Expression negation() {
    const Deeper deeper(depth_);
    if (words_.take_name("not")) return {Op::kNot, {}, false, {negation()}};
    return comparison();
  }

  Expression comparison() {
    Expression left = sum();
    const bool equal = words_.take_sign("==");
    if (!equal && !words_.take_sign("!=")) return left;
    Expression right = sum();
    if (left.is_text() != right.is_text()) throw template_error("a comparison of text with a truth value");
    return {equal ? Op::kEqual : Op::kNotEqual, {}, false, {std::move(left), std::move(right)}};
  }

  Expression sum() {
    Expression left = filtered();
    while (words_.take_sign("+") || words_.take_sign("~")) {
      Expression right = filtered();
      if (!left.is_text() || !right.is_text()) throw template_error("a sum of something other than text");
      left = {Op::kConcat, {}, false, {std::move(left), std::move(right)}};
    }
    return left;
  }

  Expression filtered() {
    Expression value = primary();
    while (words_.take_sign("|")) {
      if (!words_.take_name("trim")) throw template_error("the filter " + words_.described());
      if (!value.is_text()) throw template_error("trim of something other than text");
      value = {Op::kTrim, {}, false, {std::move(value)}};
    }
    return value;
  }

  Expression primary() {
    if (words_.take_sign("(")) {
      Expression inner = any();
      words_.expect_sign(")");
      return inner;
    }
    if (words_.peek().kind == TemplateWord::Kind::kString) return {Op::kText, words_.take().text, false, {}};
    if (words_.peek().kind != TemplateWord::Kind::kName) throw template_error(words_.described());
    return named(words_.take().text);
  }

  Expression named(const std::string& name) {
    if (name == "true" || name == "True") return {Op::kBoolean, {}, true, {}};
    if (name == "false" || name == "False") return {Op::kBoolean, {}, false, {}};
    if (name == "add_generation_prompt") return {Op::kGenerate, {}, false, {}};
    if (const auto token = scope_.tokens.find(name); token != scope_.tokens.end()) {
      return {Op::kText, token->second, false, {}};
    }
    if (!scope_.loop_variable.empty() && name == scope_.loop_variable) return message_field(attribute());
    if (!scope_.loop_variable.empty() && name == "loop") return loop_field(attribute());
    throw template_error("the name \"" + name + "\"");
  }

  std::string attribute() {
    if (words_.take_sign(".")) return words_.take().text;
    words_.expect_sign("[");
    if (words_.peek().kind != TemplateWord::Kind::kString) throw template_error("an index other than a string");
    std::string name = words_.take().text;
    words_.expect_sign("]");
    return name;
  }

  static Expression message_field(const std::string& name) {
    if (name == "role") return {Op::kRole, {}, false, {}};
    if (name == "content") return {Op::kContent, {}, false, {}};
    throw template_error("a message's \"" + name + "\"");
  }

  static Expression loop_field(const std::string& name) {
    if (name == "first") return {Op::kFirst, {}, false, {}};
    if (name == "last") return {Op::kLast, {}, false, {}};
    throw template_error("loop." + name);
  }

  TemplateWords& words_;
  const Scope& scope_;
  int depth_ = 0;
};

class TemplateParser {
 public:
  TemplateParser(std::vector<TemplatePart> parts, const std::map<std::string, std::string>& tokens)
      : parts_(std::move(parts)), scope_{tokens, {}} {}

  std::vector<TemplateNode> parse() {
    std::vector<TemplateNode> nodes = block();
    if (at_ < parts_.size()) throw template_error("{% " + verb_at(at_) + " %} without its beginning");
    return nodes;
  }

 private:
  std::string verb_at(std::size_t index) const { return TemplateWords(parts_[index].text).peek().text; }

  // Up to the end, or to a statement that ends or continues the block it is in.
  std::vector<TemplateNode> block() {
    const Deeper deeper(depth_);
    constexpr std::array<std::string_view, 4> kClosing{"elif", "else", "endif", "endfor"};
    std::vector<TemplateNode> nodes;
    for (; at_ < parts_.size(); ++at_) {
      const TemplatePart& part = parts_[at_];
      if (part.kind == TemplatePart::Kind::kText) {
        nodes.push_back({TemplateNode::Kind::kText, part.text, {}, {}, {}});
      } else if (part.kind == TemplatePart::Kind::kOutput) {
        nodes.push_back(output(part.text));
      } else {
        const std::string verb = verb_at(at_);
        for (const std::string_view closing : kClosing) {
          if (verb == closing) return nodes;
        }
        nodes.push_back(statement(verb));
      }
    }
    return nodes;
  }

  TemplateNode output(const std::string& tag) const {
    TemplateNode node{TemplateNode::Kind::kOutput, {}, expression(tag, {}), {}, {}};
    if (!node.expression.is_text()) throw template_error("the output of a truth value");
    return node;
  }

  Expression expression(const std::string& tag, std::string_view verb) const {
    TemplateWords words(tag);
    if (!verb.empty()) words.take_name(verb);
    Expression parsed = ExpressionParser(words, scope_).any();
    words.expect_end();
    return parsed;
  }

  // Leaves at_ on the closing statement, which block()'s loop steps over.
  TemplateNode statement(const std::string& verb) {
    if (verb == "if") return conditional("if");
    if (verb == "for") return loop();
    throw template_error("{% " + verb + " %}");
  }

  TemplateNode conditional(std::string_view verb) {
    const Deeper deeper(depth_);
    TemplateNode node{TemplateNode::Kind::kIf, {}, expression(parts_[at_].text, verb), {}, {}};
    ++at_;
    node.body = block();
    if (is_verb("elif")) {
      node.otherwise.push_back(conditional("elif"));
      return node;
    }
    if (is_verb("else")) {
      expect_bare("else");
      ++at_;
      node.otherwise = block();
    }
    expect_bare("endif");
    return node;
  }

  TemplateNode loop() {
    if (!scope_.loop_variable.empty()) throw template_error("a loop in a loop");
    TemplateWords words(parts_[at_].text);
    words.take();
    if (words.peek().kind != TemplateWord::Kind::kName) throw template_error(words.described());
    scope_.loop_variable = words.take().text;
    if (!words.take_name("in") || !words.take_name("messages"))
      throw template_error("a loop over anything but messages");
    words.expect_end();
    ++at_;
    TemplateNode node{TemplateNode::Kind::kFor, {}, {}, block(), {}};
    expect_bare("endfor");
    scope_.loop_variable.clear();
    return node;
  }

  bool is_verb(std::string_view verb) const { return at_ < parts_.size() && verb_at(at_) == verb; }

  void expect_bare(std::string_view verb) const {
    if (!is_verb(verb)) throw template_error("a block without its {% " + std::string(verb) + " %}");
    TemplateWords words(parts_[at_].text);
    words.take();
    words.expect_end();
  }

  std::vector<TemplatePart> parts_;
  std::size_t at_ = 0;
  Scope scope_;
  int depth_ = 0;
};

}  // namespace

std::vector<TemplateNode> parse_template(std::string_view source, const std::map<std::string, std::string>& tokens) {
  if (source.size() > kMaxSourceBytes) throw Error(ErrorCode::kTooLarge, "the chat template is over 64 KiB");
  return TemplateParser(cut_template(source), tokens).parse();
}

}  // namespace slip
