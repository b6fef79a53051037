// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_interpreter.h"

#include <algorithm>

namespace slip {

namespace {

using Kind = TemplateNode::Kind;
using Names = TemplateInterpreter::Names;

const TemplateValue* find_in(const Names& frame, const std::string& name) {
  const auto found = std::find_if(frame.begin(), frame.end(), [&](const auto& entry) { return entry.first == name; });
  return found == frame.end() ? nullptr : &found->second;
}

}  // namespace

TemplateText TemplateInterpreter::run(const std::vector<TemplateNode>& program) {
  run_block(program);
  return std::move(out_);
}

TemplateInterpreter::Flow TemplateInterpreter::run_block(const std::vector<TemplateNode>& nodes) {
  const TemplateWork::Level level(work_);
  for (const TemplateNode& node : nodes) {
    work_.at(node.line);
    work_.spend(1);
    const Flow flow = run_node(node);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

TemplateInterpreter::Flow TemplateInterpreter::run_node(const TemplateNode& node) {
  switch (node.kind) {
    case Kind::kText:
      emit(TemplateText::own(node.text));
      break;
    case Kind::kOutput:
      emit(value_of(node.expression[0]).shown(work_));
      break;
    case Kind::kIf:
      return run_block(holds(node.expression[0]) ? node.body : node.otherwise);
    case Kind::kFor:
      run_loop(node);
      break;
    case Kind::kSet:
      set(node);
      break;
    case Kind::kSetBlock:
      define(node.names[0], text_value(output_of(node.body), work_));
      break;
    case Kind::kMacro:
      define(node.text, TemplateValue::macro(node));
      break;
    case Kind::kBlock:
      emit(output_of(node.body));
      break;
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

void TemplateInterpreter::run_loop(const TemplateNode& node) {
  TemplateItems items = items_of(value_of(node.expression[0]), work_);
  if (!node.condition.empty()) {
    TemplateValue::Items kept;
    for (const TemplateValue& item : items) {
      frames_.emplace_back();
      define_all(node.names, item);
      if (holds(node.condition[0])) kept.push_back(item);
      frames_.pop_back();
    }
    items = TemplateItems(TemplateValue::list(std::move(kept), work_).shared_list());
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (run_round(node, items[i], TemplateValue::loop({items.list(), i})) == Flow::kBreak) break;
  }
  if (items.empty()) run_block(node.otherwise);
}

TemplateInterpreter::Flow TemplateInterpreter::run_round(const TemplateNode& node, const TemplateValue& item,
                                                         TemplateValue loop) {
  work_.spend(1);
  frames_.emplace_back();
  define("loop", std::move(loop));
  define_all(node.names, item);
  const Flow flow = run_block(node.body);
  frames_.pop_back();
  return flow;
}

void TemplateInterpreter::set(const TemplateNode& node) {
  TemplateValue value = value_of(node.expression[0]);
  if (node.text.empty()) {
    define_all(node.names, value);
  } else {
    set_attribute(node.text, node.names[0], std::move(value));
  }
}

void TemplateInterpreter::set_attribute(const std::string& space, const std::string& name, TemplateValue value) {
  const TemplateValue found = find(space);
  TemplateValue::Namespace* target = found.as_namespace();
  if (target == nullptr) work_.fail("an attribute of " + found.kind() + " is set");
  TemplateValue::list({value}, work_);  // fails for values that cannot be elements
  auto& entries = target->map.entries;
  work_.spend(entries.size());
  const auto known =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == name; });
  if (known == entries.end()) {
    entries.emplace_back(name, std::move(value));
  } else {
    known->second = std::move(value);
  }
}

TemplateText TemplateInterpreter::output_of(const std::vector<TemplateNode>& body) {
  TemplateText outer = std::exchange(out_, {});
  frames_.emplace_back();
  run_block(body);
  frames_.pop_back();
  return std::exchange(out_, std::move(outer));
}

TemplateValue TemplateInterpreter::call_macro(const TemplateNode& macro, const TemplateArguments& call) {
  const std::size_t n_positional = call.values.size() - call.names.size();
  if (n_positional > macro.names.size()) work_.fail(macro.text + " is given too many arguments");
  Names own;
  const std::size_t first_default = macro.names.size() - macro.defaults.size();
  for (std::size_t i = 0; i < macro.names.size(); ++i) {
    const auto named = std::find(call.names.begin(), call.names.end(), macro.names[i]);
    TemplateValue value = TemplateValue::undefined(macro.names[i]);
    if (i < n_positional) {
      value = call.values[i];
    } else if (named != call.names.end()) {
      value = call.values[n_positional + static_cast<std::size_t>(named - call.names.begin())];
    } else if (i >= first_default) {
      value = value_of(macro.defaults[i - first_default]);
    }
    own.emplace_back(macro.names[i], std::move(value));
  }
  for (const std::string& name : call.names) {
    const auto place = std::find(macro.names.begin(), macro.names.end(), name) - macro.names.begin();
    if (static_cast<std::size_t>(place) < n_positional || static_cast<std::size_t>(place) == macro.names.size()) {
      work_.fail(macro.text + " is given " + name + ", which it does not take or has already");
    }
  }
  frames_.push_back(std::move(own));
  const std::size_t caller_sees = std::exchange(visible_from_, frames_.size() - 1);
  TemplateText text = output_of(macro.body);
  visible_from_ = caller_sees;
  frames_.pop_back();
  return text_value(std::move(text), work_);
}

void TemplateInterpreter::emit(const TemplateText& text) {
  if (out_.size() + text.size() > TemplateWork::kMostTextBytes) work_.spend_bytes(out_.size() + text.size());
  work_.spend_bytes(text.size());
  out_.append(text);
}

TemplateValue TemplateInterpreter::find(const std::string& name) const {
  for (std::size_t i = frames_.size(); i-- > std::max<std::size_t>(visible_from_, 1);) {
    if (const TemplateValue* found = find_in(frames_[i], name)) return *found;
  }
  const TemplateValue* found = find_in(frames_.front(), name);
  return found == nullptr ? TemplateValue::undefined(name) : *found;
}

void TemplateInterpreter::define(const std::string& name, TemplateValue value) {
  Names& frame = frames_.back();
  const auto known = std::find_if(frame.begin(), frame.end(), [&](const auto& entry) { return entry.first == name; });
  if (known == frame.end()) {
    frame.emplace_back(name, std::move(value));
  } else {
    known->second = std::move(value);
  }
}

void TemplateInterpreter::define_all(const std::vector<std::string>& names, const TemplateValue& value) {
  if (names.size() == 1) return define(names[0], value);
  const TemplateItems parts = items_of(value, work_);
  if (parts.size() != names.size()) {
    work_.fail(std::to_string(names.size()) + " names for " + std::to_string(parts.size()) + " values");
  }
  for (std::size_t i = 0; i < names.size(); ++i) define(names[i], parts[i]);
}

}  // namespace slip
