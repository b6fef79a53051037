// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "text/chat_template/template_builtins.h"

namespace slip {

namespace {

using Call = TemplateArguments;
using Items = TemplateValue::Items;
using Filter = TemplateValue (*)(const TemplateValue& value, const Call& call, TemplateWork& work);

// A filter that calls the string method of the same name on the value's text.
TemplateValue as_method(const TemplateValue& value, const Call& call, TemplateWork& work) {
  Call method = call;
  if (method.callee == "trim") method.callee = "strip";
  return call_text_method(value.shown(work), method, work);
}

TemplateValue title(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  const TemplateText text = value.shown(work);
  work.spend(text.size());
  return text_value(with_words_capitalized(text), work);
}

TemplateValue length(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  return TemplateValue::integer(static_cast<std::int64_t>(length_of(value, work)));
}

TemplateValue tojson(const TemplateValue& value, const Call& call, TemplateWork& work) {
  const Items given = call.bound({"ensure_ascii", "indent", "separators", "sort_keys"}, work);
  if (given[0].truth()) work.fail("tojson with ensure_ascii");
  if (given[2].truth() || given[3].truth()) work.fail("tojson with separators or sort_keys");
  return text_value(to_json(value, optional_integer(given[1], work).value_or(-1), work), work);
}

TemplateValue otherwise(const TemplateValue& value, const Call& call, TemplateWork& work) {
  Items given = call.bound({"default_value", "boolean"}, work);
  const bool absent = value.is_undefined() || (given[1].truth() && !value.truth());
  if (!absent) return value;
  return given[0].is_undefined() ? TemplateValue::text({}) : given[0];
}

TemplateValue attribute_path(TemplateValue value, const TemplateValue& path, TemplateWork& work) {
  if (path.as_text() == nullptr) return item_of(value, path, work);
  work.spend_bytes(path.as_text()->size());
  work.spend_texts(n_parts(path.as_text()->bytes(), ".", kEverySplit));
  for (const TemplateText& name : split(*path.as_text(), ".", kEverySplit)) {
    value = attribute_of(value, name.bytes(), work);
  }
  return value;
}

TemplateValue join(const TemplateValue& value, const Call& call, TemplateWork& work) {
  const Items given = call.bound({"d", "attribute"}, work);
  const TemplateText separator = given[0].shown(work);
  TemplateText out;
  bool first = true;
  for (const TemplateValue& item : items_of(value, work)) {
    const bool whole = given[1].is_undefined() || given[1].is_none();
    const TemplateText next = (whole ? item : attribute_path(item, given[1], work)).shown(work);
    work.spend_bytes(separator.size() + next.size());
    if (!std::exchange(first, false)) out.append(separator);
    out.append(next);
  }
  return text_value(std::move(out), work);
}

TemplateValue first(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  const TemplateItems all = items_of(value, work);
  return all.empty() ? TemplateValue::undefined("the first of nothing") : all[0];
}

TemplateValue last(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  const TemplateItems all = items_of(value, work);
  return all.empty() ? TemplateValue::undefined("the last of nothing") : all[all.size() - 1];
}

TemplateValue list(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  const TemplateItems all = items_of(value, work);
  work.spend(all.size());
  return TemplateValue::list(Items(all.begin(), all.end()), work);
}

TemplateValue reverse(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  const TemplateItems all = items_of(value, work);
  work.spend(all.size());
  Items backwards(all.begin(), all.end());
  std::reverse(backwards.begin(), backwards.end());
  if (value.as_text() == nullptr) return TemplateValue::list(std::move(backwards), work);
  TemplateText out;
  for (const TemplateValue& item : backwards) out.append(*item.as_text());
  return text_value(std::move(out), work);
}

TemplateValue string(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  return text_value(value.shown(work), work);
}

TemplateValue integer(const TemplateValue& value, const Call& call, TemplateWork& work) {
  const auto fallback = optional_integer(call.bound({"default"}, work)[0], work).value_or(0);
  if (value.as_text() == nullptr) {
    const bool number = value.as<bool>() != nullptr || value.as<std::int64_t>() != nullptr;
    return TemplateValue::integer(number ? optional_integer(value, work).value_or(0) : fallback);
  }
  const std::string& text = value.as_text()->bytes();
  work.spend_bytes(text.size());
  const ByteRange left = stripped(text, {});
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data() + left.begin, text.data() + left.end, number);
  return TemplateValue::integer(failed == std::errc() && end == text.data() + left.end ? number : fallback);
}

TemplateValue items(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  if (value.is_undefined()) return TemplateValue::list({}, work);
  return call_method(value, {"items", {}, {}}, work);
}

TemplateValue dictsort(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  if (value.as_map() == nullptr) work.fail("dictsort of " + value.kind());
  const TemplateValue pairs = call_method(value, {"items", {}, {}}, work);
  Items sorted = pairs.as_list()->items;
  work.spend(16 * sorted.size());
  const auto key = [](const TemplateValue& pair) {
    return with_case(*pair.as_list()->items[0].as_text(), LetterCase::kLower).bytes();
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return TemplateValue::list(std::move(sorted), work);
}

// The arguments after the first `n`, as a call.
Call rest_of(const Call& call, std::size_t n, TemplateWork& work) {
  if (!call.names.empty()) work.fail(call.callee + " with named arguments");
  Call rest;
  if (call.values.size() <= n) return rest;
  work.spend(call.values.size());
  rest.callee = required_text(call.values[n], call.callee, work).bytes();
  rest.values.assign(call.values.begin() + static_cast<std::ptrdiff_t>(n) + 1, call.values.end());
  return rest;
}

// select('test', …), selectattr('name', 'test', …) and their opposites.
template <bool kAttribute, bool kKeep>
TemplateValue select(const TemplateValue& value, const Call& call, TemplateWork& work) {
  if (kAttribute && call.values.empty()) work.fail(call.callee + " without an attribute");
  const Call test = rest_of(call, kAttribute ? 1 : 0, work);
  if (!test.callee.empty() && !is_template_test(test.callee)) work.fail("there is no test \"" + test.callee + "\"");
  Items out;
  for (const TemplateValue& item : items_of(value, work)) {
    work.spend(1);
    const TemplateValue seen = kAttribute ? attribute_path(item, call.values[0], work) : item;
    const bool holds = test.callee.empty() ? seen.truth() : apply_test(seen, test, work);
    if (holds == kKeep) out.push_back(item);
  }
  return TemplateValue::list(std::move(out), work);
}

// map('filter', …) and map(attribute='name', default=…)
TemplateValue map(const TemplateValue& value, const Call& call, TemplateWork& work) {
  const bool by_attribute = !call.names.empty();
  const Items given = by_attribute ? call.bound({"attribute", "default"}, work) : Items();
  const Call filter = by_attribute ? Call() : rest_of(call, 0, work);
  if (!by_attribute && !is_template_filter(filter.callee)) work.fail("there is no filter \"" + filter.callee + "\"");
  Items out;
  for (const TemplateValue& item : items_of(value, work)) {
    work.spend(1);
    TemplateValue next = by_attribute ? attribute_path(item, given[0], work) : apply_filter(item, filter, work);
    if (by_attribute && next.is_undefined()) next = given[1];
    out.push_back(std::move(next));
  }
  return TemplateValue::list(std::move(out), work);
}

TemplateValue indent(const TemplateValue& value, const Call& call, TemplateWork& work) {
  constexpr std::int64_t kMostBlanks = 1024;
  const Items given = call.bound({"width", "first", "blank"}, work);
  TemplateText margin;
  if (given[0].as_text() != nullptr) {
    margin = *given[0].as_text();
  } else {
    const std::int64_t width = optional_integer(given[0], work).value_or(4);
    if (width < 0 || width > kMostBlanks) work.fail("indent by less than 0 or more than 1024");
    margin.append_own(std::string(static_cast<std::size_t>(width), ' '));
  }
  TemplateText text = value.shown(work);
  work.spend(text.size());
  text.append_own("\n");  // keeps an empty last line, as Jinja does
  const TemplateTexts lines = split_lines(text);
  work.spend_bytes(text.size() + lines.size() * margin.size());
  TemplateText out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append_own("\n");
    const bool indented = i == 0 ? given[1].truth() : given[2].truth() || !lines[i].empty();
    if (indented) out.append(margin);
    out.append(lines[i]);
  }
  return text_value(std::move(out), work);
}

TemplateValue unchanged(const TemplateValue& value, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  return value;
}

constexpr std::array<std::pair<std::string_view, Filter>, 27> kFilters{{
    {"trim", as_method},
    {"upper", as_method},
    {"lower", as_method},
    {"capitalize", as_method},
    {"replace", as_method},
    {"title", title},
    {"length", length},
    {"count", length},
    {"tojson", tojson},
    {"default", otherwise},
    {"d", otherwise},
    {"join", join},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"string", string},
    {"int", integer},
    {"items", items},
    {"dictsort", dictsort},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
    {"map", map},
    {"indent", indent},
    {"safe", unchanged},
}};

const Filter* find_filter(std::string_view name) {
  const auto* found =
      std::find_if(kFilters.begin(), kFilters.end(), [&](const auto& known) { return known.first == name; });
  return found == kFilters.end() ? nullptr : &found->second;
}

}  // namespace

bool is_template_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

TemplateValue apply_filter(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work) {
  const TemplateWork::Level level(work);  // map('map', 'map', …) applies a filter in a filter
  return (*find_filter(call.callee))(value, call, work);
}

}  // namespace slip
