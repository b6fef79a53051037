// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template/template_value.h"
#include "text/chat_template/template_work.h"

namespace slip {

// What stands between a call's parentheses: `values`, of which the last have `names`.
struct TemplateArguments {
  std::string callee;  // for errors
  TemplateValue::Items values;
  std::vector<std::string> names;

  // By parameter, in order; undefined where nothing was given. Fails for what no parameter takes.
  TemplateValue::Items bound(std::initializer_list<std::string_view> parameters, const TemplateWork& work) const;
};

// Jinja's filters and tests, Python's methods and transformers' functions, as far as real chat templates use them. They
// throw what TemplateWork::fail() does for arguments of the wrong kind.
bool is_template_filter(std::string_view name);
bool is_template_test(std::string_view name);
bool template_test_takes_value(std::string_view name);  // `x is divisibleby 3`
TemplateValue apply_filter(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work);
bool apply_test(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work);
TemplateValue call_method(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work);
TemplateValue call_text_method(const TemplateText& text, const TemplateArguments& call, TemplateWork& work);
TemplateValue call_function(TemplateValue::Function which, const TemplateArguments& call, TemplateWork& work);

// value.name and value[key]; undefined when there is no such thing, a failure on what is itself undefined.
TemplateValue attribute_of(const TemplateValue& value, std::string_view name, const TemplateWork& work);
TemplateValue item_of(const TemplateValue& value, const TemplateValue& key, TemplateWork& work);
// value[begin:end:step]; each an integer or none.
TemplateValue slice_of(const TemplateValue& value, const TemplateValue& begin, const TemplateValue& end,
                       const TemplateValue& step, TemplateWork& work);

// As Python's json.dumps(value, ensure_ascii=False, indent=indent); `indent` below 0 for one line.
TemplateText to_json(const TemplateValue& value, std::int64_t indent, TemplateWork& work);

// Of an argument. The first two: absent or none means nothing.
std::optional<std::int64_t> optional_integer(const TemplateValue& value, const TemplateWork& work);
std::int64_t required_integer(const TemplateValue& value, const TemplateWork& work);
std::size_t optional_count(const TemplateValue& value, const TemplateWork& work);  // kEverySplit when below 0 too
const TemplateText& required_text(const TemplateValue& value, const std::string& callee, const TemplateWork& work);

TemplateValue text_value(TemplateText text, TemplateWork& work);  // its bytes spent
TemplateValue list_value(TemplateTexts texts, TemplateWork& work);

}  // namespace slip
