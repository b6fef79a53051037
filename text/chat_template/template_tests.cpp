// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_template/template_builtins.h"

namespace slip {

namespace {

using Value = TemplateValue;

// A test without an argument.
using Kind = bool (*)(const Value& value);
constexpr std::array<std::pair<std::string_view, Kind>, 14> kKinds{{
    {"defined", [](const Value& value) { return !value.is_undefined(); }},
    {"undefined", [](const Value& value) { return value.is_undefined(); }},
    {"none", [](const Value& value) { return value.is_none(); }},
    {"string", [](const Value& value) { return value.as_text() != nullptr; }},
    {"number", [](const Value& value) { return value.as<std::int64_t>() != nullptr || value.as<bool>() != nullptr; }},
    {"integer", [](const Value& value) { return value.as<std::int64_t>() != nullptr; }},
    {"float", [](const Value&) { return false; }},
    {"boolean", [](const Value& value) { return value.as<bool>() != nullptr; }},
    {"true", [](const Value& value) { return value.as<bool>() != nullptr && *value.as<bool>(); }},
    {"false", [](const Value& value) { return value.as<bool>() != nullptr && !*value.as<bool>(); }},
    {"mapping", [](const Value& value) { return value.as_map() != nullptr; }},
    {"sequence",
     [](const Value& value) {
       return value.as_list() != nullptr || value.as_map() != nullptr || value.as_text() != nullptr ||
              value.is_undefined();
     }},
    {"iterable",
     [](const Value& value) {
       return value.as_list() != nullptr || value.as_map() != nullptr || value.as_text() != nullptr ||
              value.is_undefined();
     }},
    {"callable",
     [](const Value& value) {
       return value.as<Value::Function>() != nullptr || value.as<const TemplateNode*>() != nullptr;
     }},
}};

// A test with one argument.
using Relation = bool (*)(const Value& value, const Value& other, TemplateWork& work);
constexpr std::array<std::pair<std::string_view, Relation>, 15> kRelations{{
    {"equalto", [](const Value& a, const Value& b, TemplateWork& work) { return equal(a, b, work); }},
    {"eq", [](const Value& a, const Value& b, TemplateWork& work) { return equal(a, b, work); }},
    {"==", [](const Value& a, const Value& b, TemplateWork& work) { return equal(a, b, work); }},
    {"ne", [](const Value& a, const Value& b, TemplateWork& work) { return !equal(a, b, work); }},
    {"!=", [](const Value& a, const Value& b, TemplateWork& work) { return !equal(a, b, work); }},
    {"lt", [](const Value& a, const Value& b, TemplateWork& work) { return less(a, b, work); }},
    {"lessthan", [](const Value& a, const Value& b, TemplateWork& work) { return less(a, b, work); }},
    {"gt", [](const Value& a, const Value& b, TemplateWork& work) { return less(b, a, work); }},
    {"greaterthan", [](const Value& a, const Value& b, TemplateWork& work) { return less(b, a, work); }},
    {"le", [](const Value& a, const Value& b, TemplateWork& work) { return !less(b, a, work); }},
    {"ge", [](const Value& a, const Value& b, TemplateWork& work) { return !less(a, b, work); }},
    {"in", [](const Value& a, const Value& b, TemplateWork& work) { return contains(b, a, work); }},
    {"divisibleby",
     [](const Value& a, const Value& b, TemplateWork& work) {
       const std::int64_t divisor = required_integer(b, work);
       if (divisor == 0) work.fail("a division by 0");
       return divisor == -1 || required_integer(a, work) % divisor == 0;
     }},
    {"odd", nullptr},
    {"even", nullptr},
}};

template <typename Table>
auto find_in(const Table& table, std::string_view name) -> const typename Table::value_type::second_type* {
  const auto* found = std::find_if(table.begin(), table.end(), [&](const auto& known) { return known.first == name; });
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace

bool is_template_test(std::string_view name) {
  return find_in(kKinds, name) != nullptr || find_in(kRelations, name) != nullptr;
}

bool template_test_takes_value(std::string_view name) {
  return find_in(kRelations, name) != nullptr && name != "odd" && name != "even";
}

bool apply_test(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work) {
  work.spend(1);
  if (const Kind* kind = find_in(kKinds, call.callee)) {
    call.bound({}, work);
    return (*kind)(value);
  }
  if (call.callee == "odd" || call.callee == "even") {
    call.bound({}, work);
    return (required_integer(value, work) % 2 != 0) == (call.callee == "odd");
  }
  return (*find_in(kRelations, call.callee))(value, call.bound({"other"}, work)[0], work);
}

}  // namespace slip
