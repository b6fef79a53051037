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

// The arguments of a call. The last names.size() of `values` are keyword arguments.
struct TemplateArguments {
  std::string callee;  // for error messages
  TemplateValue::Items values;
  std::vector<std::string> names;

  // The arguments in the order of `parameters`, undefined where none was given. Fails for an argument that matches no
  // parameter.
  TemplateValue::Items bound(std::initializer_list<std::string_view> parameters, const TemplateWork& work) const;
};

// Jinja's filters and tests, Python's methods and transformers' functions, as far as real chat templates use them.
// Arguments of the wrong kind throw by TemplateWork::fail().
bool is_template_filter(std::string_view name);
bool is_template_test(std::string_view name);
bool template_test_takes_value(std::string_view name);  // `x is divisibleby 3`
TemplateValue apply_filter(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work);
bool apply_test(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work);
TemplateValue call_method(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work);
TemplateValue call_text_method(const TemplateText& text, const TemplateArguments& call, TemplateWork& work);
TemplateValue call_function(TemplateValue::Function which, const TemplateArguments& call, TemplateWork& work);

// value.name and value[key]. Undefined when there is no such entry; fails when `value` itself is undefined.
TemplateValue attribute_of(const TemplateValue& value, std::string_view name, const TemplateWork& work);
TemplateValue item_of(const TemplateValue& value, const TemplateValue& key, TemplateWork& work);
// value[begin:end:step]; each bound is an integer or none.
TemplateValue slice_of(const TemplateValue& value, const TemplateValue& begin, const TemplateValue& end,
                       const TemplateValue& step, TemplateWork& work);

// Python's json.dumps(value, ensure_ascii=False, indent=indent); a negative `indent` writes one line.
TemplateText to_json(const TemplateValue& value, std::int64_t indent, TemplateWork& work);

// Readers of an argument. The optional ones treat a missing argument and none alike.
std::optional<std::int64_t> optional_integer(const TemplateValue& value, const TemplateWork& work);
std::int64_t required_integer(const TemplateValue& value, const TemplateWork& work);
// Gives kEverySplit also for negative counts
std::size_t optional_count(const TemplateValue& value, const TemplateWork& work);
const TemplateText& required_text(const TemplateValue& value, const std::string& callee, const TemplateWork& work);

TemplateValue text_value(TemplateText text, TemplateWork& work);  // counts its bytes as work
TemplateValue list_value(TemplateTexts texts, TemplateWork& work);

}  // namespace slip
