// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_template/template_builtins.h"

namespace slip {

namespace {

using Call = TemplateArguments;
using Method = TemplateValue (*)(const TemplateText& text, const Call& call, TemplateWork& work);

template <bool kLeft, bool kRight>
TemplateValue strip(const TemplateText& text, const Call& call, TemplateWork& work) {
  constexpr StripSides kSides{kLeft, kRight};
  const TemplateValue characters = call.bound({"chars"}, work)[0];
  const bool blanks = characters.is_undefined() || characters.is_none();
  const ByteRange left = blanks ? stripped(text.bytes(), kSides)
                                : stripped(text.bytes(), kSides, required_text(characters, call.callee, work).bytes());
  return text_value(text.slice(left), work);
}

template <bool kFromRight>
TemplateValue split_method(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue::Items given = call.bound({"sep", "maxsplit"}, work);
  const std::size_t most = optional_count(given[1], work);
  work.spend_bytes(text.size());
  if (given[0].is_undefined() || given[0].is_none()) {
    if (most != kEverySplit) work.fail("a split at white space with maxsplit");
    work.spend_texts(n_words(text.bytes()));
    return list_value(split_at_white_space(text), work);
  }
  const std::string& separator = required_text(given[0], call.callee, work).bytes();
  if (separator.empty()) work.fail("a split at an empty text");
  work.spend_texts(n_parts(text.bytes(), separator, most));
  return list_value(kFromRight ? split_from_right(text, separator, most) : split(text, separator, most), work);
}

TemplateValue split_lines_method(const TemplateText& text, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  work.spend_bytes(text.size());
  work.spend_texts(n_lines(text.bytes()));
  return list_value(split_lines(text), work);
}

// The argument is one text, or a list of texts of which one must match.
template <typename Holds>
TemplateValue any_of(const Call& call, TemplateWork& work, Holds holds) {
  const TemplateValue wanted = call.bound({"text"}, work)[0];
  if (const TemplateValue::List* list = wanted.as_list()) {
    work.spend(list->items.size());
    return TemplateValue::boolean(std::any_of(list->items.begin(), list->items.end(), [&](const TemplateValue& item) {
      return holds(required_text(item, call.callee, work).bytes());
    }));
  }
  return TemplateValue::boolean(holds(required_text(wanted, call.callee, work).bytes()));
}

TemplateValue starts_with(const TemplateText& text, const Call& call, TemplateWork& work) {
  return any_of(call, work, [&](const std::string& wanted) { return text.bytes().starts_with(wanted); });
}

TemplateValue ends_with(const TemplateText& text, const Call& call, TemplateWork& work) {
  return any_of(call, work, [&](const std::string& wanted) { return text.bytes().ends_with(wanted); });
}

TemplateValue replace_method(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue::Items given = call.bound({"old", "new", "count"}, work);
  const std::string& old = required_text(given[0], call.callee, work).bytes();
  const TemplateText& by = required_text(given[1], call.callee, work);
  if (old.empty()) work.fail("the replacement of an empty text");
  const std::size_t n = std::min(text.size() / old.size(), optional_count(given[2], work));
  // Charges an upper bound before the replacement; the actual number of matches may be lower.
  std::size_t found = 0;
  for (std::size_t at = text.bytes().find(old); at != std::string::npos && found < n; ++found) {
    at = text.bytes().find(old, at + old.size());
  }
  work.spend_bytes(text.size() + found * by.size());
  work.spend(found);
  return TemplateValue::text(replace(text, old, by, n));
}

template <LetterCase kCase>
TemplateValue change_case(const TemplateText& text, const Call& call, TemplateWork& work) {
  call.bound({}, work);
  work.spend_bytes(3 * text.size());  // Unicode special casing makes at most three characters of one
  return text_value(with_case(text, kCase), work);
}

TemplateValue find_text(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue wanted = call.bound({"text"}, work)[0];
  work.spend_bytes(text.size());
  const std::size_t at = text.bytes().find(required_text(wanted, call.callee, work).bytes());
  if (at == std::string::npos) return TemplateValue::integer(-1);
  return TemplateValue::integer(static_cast<std::int64_t>(n_characters(std::string_view(text.bytes()).substr(0, at))));
}

TemplateValue count_text(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue given = call.bound({"text"}, work)[0];
  const std::string& wanted = required_text(given, call.callee, work).bytes();
  if (wanted.empty()) work.fail("the count of an empty text");
  work.spend_bytes(text.size());
  std::int64_t n = 0;
  for (std::size_t at = text.bytes().find(wanted); at != std::string::npos; ++n) {
    at = text.bytes().find(wanted, at + wanted.size());
  }
  return TemplateValue::integer(n);
}

TemplateValue join(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue given = call.bound({"items"}, work)[0];
  TemplateText out;
  bool first = true;
  for (const TemplateValue& item : items_of(given, work)) {
    const TemplateText& next = required_text(item, call.callee, work);
    work.spend_bytes(text.size() + next.size());
    if (!std::exchange(first, false)) out.append(text);
    out.append(next);
  }
  return text_value(std::move(out), work);
}

TemplateValue remove_prefix(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue given = call.bound({"prefix"}, work)[0];
  const std::string& prefix = required_text(given, call.callee, work).bytes();
  return text_value(text.slice({text.bytes().starts_with(prefix) ? prefix.size() : 0, text.size()}), work);
}

TemplateValue remove_suffix(const TemplateText& text, const Call& call, TemplateWork& work) {
  const TemplateValue given = call.bound({"suffix"}, work)[0];
  const std::string& suffix = required_text(given, call.callee, work).bytes();
  return text_value(text.slice({0, text.size() - (text.bytes().ends_with(suffix) ? suffix.size() : 0)}), work);
}

constexpr std::array<std::pair<std::string_view, Method>, 17> kMethods{{
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", split_lines_method},
    {"startswith", starts_with},
    {"endswith", ends_with},
    {"replace", replace_method},
    {"upper", change_case<LetterCase::kUpper>},
    {"lower", change_case<LetterCase::kLower>},
    {"capitalize", change_case<LetterCase::kFirstUpper>},
    {"find", find_text},
    {"count", count_text},
    {"join", join},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
}};

TemplateValue map_items(const TemplateValue::Map& map, std::string_view what, TemplateWork& work) {
  TemplateValue::Items out;
  for (const auto& [name, value] : map.entries) {
    work.spend(1);
    const TemplateValue key = TemplateValue::text(TemplateText::own(name));
    out.push_back(what == "keys" ? key : what == "values" ? value : TemplateValue::list({key, value}, work));
  }
  return TemplateValue::list(std::move(out), work);
}

}  // namespace

TemplateValue call_text_method(const TemplateText& text, const TemplateArguments& call, TemplateWork& work) {
  const auto method =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const auto& known) { return known.first == call.callee; });
  if (method == kMethods.end()) work.fail("a text's ." + call.callee + "() is not supported");
  work.spend_bytes(text.size());
  return method->second(text, call, work);
}

TemplateValue call_method(const TemplateValue& value, const TemplateArguments& call, TemplateWork& work) {
  if (const TemplateText* text = value.as_text()) return call_text_method(*text, call, work);
  if (const TemplateValue::Map* map = value.as_map()) {
    if (call.callee == "keys" || call.callee == "values" || call.callee == "items") {
      call.bound({}, work);
      return map_items(*map, call.callee, work);
    }
    if (call.callee == "get") {
      const TemplateValue::Items given = call.bound({"key", "default"}, work);
      const TemplateValue* found = map->find(required_text(given[0], call.callee, work).bytes());
      if (found != nullptr) return *found;
      return given[1].is_undefined() ? TemplateValue::none() : given[1];
    }
  }
  work.fail("." + call.callee + "() of " + value.kind());
}

}  // namespace slip
