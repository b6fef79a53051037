// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_builtins.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "common/error.h"

namespace slip {

namespace {

constexpr std::size_t kShownBytes = 512;  // of a raise_exception() message; the rest is cut off

TemplateValue loop_field(const TemplateValue::Loop& loop, std::string_view name) {
  const auto index = static_cast<std::int64_t>(loop.index), n = static_cast<std::int64_t>(loop.items->items.size());
  if (name == "index0") return TemplateValue::integer(index);
  if (name == "index") return TemplateValue::integer(index + 1);
  if (name == "revindex0") return TemplateValue::integer(n - index - 1);
  if (name == "revindex") return TemplateValue::integer(n - index);
  if (name == "first") return TemplateValue::boolean(index == 0);
  if (name == "last") return TemplateValue::boolean(index + 1 == n);
  if (name == "length") return TemplateValue::integer(n);
  if (name == "previtem" && index > 0) return loop.items->items[loop.index - 1];
  if (name == "nextitem" && index + 1 < n) return loop.items->items[loop.index + 1];
  return TemplateValue::undefined("loop." + std::string(name));
}

TemplateValue::Map named_arguments(const TemplateArguments& call, const TemplateWork& work) {
  if (call.values.size() != call.names.size()) work.fail(call.callee + " takes named arguments only");
  TemplateValue::Map out;
  for (std::size_t i = 0; i < call.names.size(); ++i) {
    if (out.find(call.names[i]) != nullptr) work.fail(call.callee + " is given " + call.names[i] + " twice");
    out.entries.emplace_back(call.names[i], call.values[i]);
  }
  return out;
}

TemplateValue raise(const TemplateArguments& call, const TemplateWork& work) {
  const TemplateText why = call.bound({"message"}, work)[0].shown(work);
  throw Error(ErrorCode::kInvalidArgument,
              "the chat template refuses these messages: " + why.bytes().substr(0, kShownBytes), {}, "messages");
}

TemplateValue local_time(const TemplateArguments& call, TemplateWork& work) {
  const TemplateValue format = call.bound({"format"}, work)[0];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 512> out{};
  const std::string& pattern = required_text(format, call.callee, work).bytes();
  const std::size_t n = pattern.empty() ? 0 : std::strftime(out.data(), out.size(), pattern.c_str(), &local);
  if (n == 0 && !pattern.empty()) work.fail("strftime_now gives nothing, or more than 511 bytes");
  return text_value(TemplateText::own(std::string(out.data(), n)), work);
}

TemplateValue range(const TemplateArguments& call, TemplateWork& work) {
  const TemplateValue::Items given = call.bound({"start", "stop", "step"}, work);
  std::int64_t begin = 0;
  auto end = optional_integer(given[0], work);
  const auto step = optional_integer(given[2], work).value_or(1);
  if (!given[1].is_undefined()) begin = std::exchange(end, optional_integer(given[1], work)).value_or(0);
  if (!end || step == 0) work.fail("range without an end, or with a step of 0");
  TemplateValue::Items out;
  for (std::int64_t i = begin; step > 0 ? i < *end : i > *end;) {
    work.spend(2);
    out.push_back(TemplateValue::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return TemplateValue::list(std::move(out), work);
}

// The first index and the number of items of a slice with this step, by Python's rules.
struct Slice {
  std::int64_t begin = 0, step = 1;
  std::size_t n = 0;
};

Slice find_slice(std::int64_t size, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
                 std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](std::optional<std::int64_t> index, std::int64_t otherwise) {
    if (!index) return otherwise;
    return std::clamp(*index < 0 ? *index + size : *index, low, high);
  };
  const std::int64_t from = place(begin, step > 0 ? low : high), to = place(end, step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? to - from : from - to;
  if (distance <= 0) return {from, step, 0};
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  return {from, step, static_cast<std::size_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1)};
}

}  // namespace

TemplateValue::Items TemplateArguments::bound(std::initializer_list<std::string_view> parameters,
                                              const TemplateWork& work) const {
  TemplateValue::Items out(parameters.size());
  const std::size_t n_positional = values.size() - names.size();
  if (n_positional > out.size()) work.fail(callee + " is given too many arguments");
  std::copy_n(values.begin(), n_positional, out.begin());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto* found = std::find(parameters.begin(), parameters.end(), names[i]);
    const auto place = static_cast<std::size_t>(found - parameters.begin());
    if (place < n_positional || found == parameters.end()) {
      work.fail(callee + " is given " + names[i] + ", which it does not take or has already");
    }
    out[place] = values[n_positional + i];
  }
  return out;
}

std::optional<std::int64_t> optional_integer(const TemplateValue& value, const TemplateWork& work) {
  if (value.is_undefined() || value.is_none()) return std::nullopt;
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* boolean = value.as<bool>()) return *boolean ? 1 : 0;
  work.fail(value.kind() + " where a number belongs");
}

std::int64_t required_integer(const TemplateValue& value, const TemplateWork& work) {
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* boolean = value.as<bool>()) return *boolean ? 1 : 0;
  work.fail("a calculation with " + value.kind());
}

std::size_t optional_count(const TemplateValue& value, const TemplateWork& work) {
  const auto count = optional_integer(value, work);
  return !count || *count < 0 ? kEverySplit : static_cast<std::size_t>(*count);
}

const TemplateText& required_text(const TemplateValue& value, const std::string& callee, const TemplateWork& work) {
  if (value.as_text() == nullptr) work.fail(value.kind() + " where " + callee + " takes a text");
  return *value.as_text();
}

TemplateValue text_value(TemplateText text, TemplateWork& work) {
  work.spend_bytes(text.size());
  return TemplateValue::text(std::move(text));
}

TemplateValue list_value(TemplateTexts texts, TemplateWork& work) {
  work.spend(texts.size());
  TemplateValue::Items items;
  for (TemplateText& text : texts) items.push_back(text_value(std::move(text), work));
  return TemplateValue::list(std::move(items), work);
}

TemplateValue call_function(TemplateValue::Function which, const TemplateArguments& call, TemplateWork& work) {
  switch (which) {
    case TemplateValue::Function::kNamespace:
      return TemplateValue::new_namespace(named_arguments(call, work), work);
    case TemplateValue::Function::kDict:
      return TemplateValue::map(named_arguments(call, work), work);
    case TemplateValue::Function::kRaiseException:
      return raise(call, work);
    case TemplateValue::Function::kStrftimeNow:
      return local_time(call, work);
    case TemplateValue::Function::kRange:
      break;
  }
  return range(call, work);
}

TemplateValue attribute_of(const TemplateValue& value, std::string_view name, const TemplateWork& work) {
  const TemplateValue* found = nullptr;
  if (const TemplateValue::Map* map = value.as_map()) found = map->find(name);
  if (const TemplateValue::Namespace* space = value.as_namespace()) found = space->map.find(name);
  if (const TemplateValue::Loop* loop = value.as_loop()) return loop_field(*loop, name);
  if (value.is_undefined()) work.fail("\"" + std::string(name) + "\" of " + value.kind());
  return found == nullptr ? TemplateValue::undefined(std::string(name)) : *found;
}

TemplateValue item_of(const TemplateValue& value, const TemplateValue& key, TemplateWork& work) {
  if (key.as_text() != nullptr) return attribute_of(value, key.as_text()->bytes(), work);
  if (value.is_undefined()) work.fail("an item of " + value.kind());
  const auto* index = key.as<std::int64_t>();
  const auto absent = TemplateValue::undefined("an item that is not there");
  if (index == nullptr || (value.as_list() == nullptr && value.as_text() == nullptr)) return absent;
  const auto n = static_cast<std::int64_t>(length_of(value, work));
  if (*index >= n || *index < -n) return absent;
  const auto place = static_cast<std::size_t>(*index < 0 ? *index + n : *index);
  if (const TemplateValue::List* list = value.as_list()) return list->items[place];
  return text_value(value.as_text()->slice(character_range(value.as_text()->bytes(), place, place + 1)), work);
}

TemplateValue slice_of(const TemplateValue& value, const TemplateValue& begin, const TemplateValue& end,
                       const TemplateValue& step, TemplateWork& work) {
  if (value.as_list() == nullptr && value.as_text() == nullptr) work.fail("a part of " + value.kind());
  const std::int64_t stride = optional_integer(step, work).value_or(1);
  if (stride == 0) work.fail("a slice with a step of 0");
  const auto size = static_cast<std::int64_t>(length_of(value, work));
  const Slice slice = find_slice(size, optional_integer(begin, work), optional_integer(end, work), stride);
  const auto first = static_cast<std::size_t>(slice.begin);
  if (const TemplateText* text = value.as_text(); text != nullptr && stride == 1) {
    return text_value(
        slice.n == 0 ? TemplateText() : text->slice(character_range(text->bytes(), first, first + slice.n)), work);
  }
  work.spend(slice.n);
  const TemplateItems all = items_of(value, work);
  TemplateValue::Items out;
  TemplateText joined;
  for (std::size_t i = 0; i < slice.n; ++i) {
    const TemplateValue& item = all[static_cast<std::size_t>(slice.begin + static_cast<std::int64_t>(i) * stride)];
    if (value.as_list() != nullptr) out.push_back(item);
    if (value.as_text() != nullptr) joined.append(*item.as_text());
  }
  return value.as_list() != nullptr ? TemplateValue::list(std::move(out), work) : text_value(std::move(joined), work);
}

}  // namespace slip
