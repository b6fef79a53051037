// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template/template_value.h"

#include <algorithm>
#include <optional>

#include "common/error.h"
#include "text/chat_template/template_work.h"
#include "text/code_points.h"

namespace slip {

namespace {

// Booleans count as 0 and 1, as in Python.
std::optional<std::int64_t> number_of(const TemplateValue& value) {
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* boolean = value.as<bool>()) return *boolean ? 1 : 0;
  return std::nullopt;
}

bool equal_items(const TemplateValue::List& a, const TemplateValue::List& b, TemplateWork& work) {
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], work)) return false;
  }
  return true;
}

bool equal_maps(const TemplateValue::Map& a, const TemplateValue::Map& b, TemplateWork& work) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    work.spend(b.entries.size());
    const TemplateValue* other = b.find(key);
    if (other == nullptr || !equal(value, *other, work)) return false;
  }
  return true;
}

}  // namespace

const TemplateValue* TemplateValue::Map::find(std::string_view key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == key; });
  return found == entries.end() ? nullptr : &found->second;
}

TemplateValue TemplateValue::undefined(std::string name) {
  return TemplateValue(Undefined{std::move(name)});
}
TemplateValue TemplateValue::text(TemplateText text) {
  return TemplateValue(std::make_shared<const TemplateText>(std::move(text)));
}
TemplateValue TemplateValue::loop(Loop loop) {
  return TemplateValue(std::make_shared<const Loop>(std::move(loop)));
}

void TemplateValue::check_inside(const TemplateWork& work) const {
  if (as_namespace() != nullptr || as_loop() != nullptr) work.fail(kind() + " inside another value");
  if (depth() >= TemplateWork::kMostLevels) work.fail("more than 64 levels of lists");
}

TemplateValue TemplateValue::list(Items items, const TemplateWork& work) {
  int depth = 0;
  for (const TemplateValue& item : items) {
    item.check_inside(work);
    depth = std::max(depth, item.depth());
  }
  return TemplateValue(std::make_shared<const List>(List{std::move(items), depth + 1}));
}

TemplateValue TemplateValue::map(Map map, const TemplateWork& work) {
  int depth = 0;
  for (const auto& [key, value] : map.entries) {
    value.check_inside(work);
    depth = std::max(depth, value.depth());
  }
  map.depth = depth + 1;
  return TemplateValue(std::make_shared<const Map>(std::move(map)));
}

TemplateValue TemplateValue::new_namespace(Map map, const TemplateWork& work) {
  for (const auto& [key, value] : map.entries) value.check_inside(work);
  return TemplateValue(std::make_shared<Namespace>(Namespace{std::move(map)}));
}

std::shared_ptr<const TemplateValue::List> TemplateValue::shared_list() const {
  return std::get<std::shared_ptr<const List>>(data_);
}

int TemplateValue::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Map* map = as_map()) return map->depth;
  return 0;
}

bool TemplateValue::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const auto number = number_of(*this)) return *number != 0;
  if (const TemplateText* text = as_text()) return !text->empty();
  if (const List* list = as_list()) return !list->items.empty();
  if (const Map* map = as_map()) return !map->entries.empty();
  return true;
}

std::string TemplateValue::kind() const {
  if (const Undefined* undefined = as<Undefined>())
    return "\"" + undefined->name.substr(0, 64) + "\", which is undefined";
  if (is_none()) return "none";
  if (as<bool>() != nullptr) return "a truth value";
  if (as<std::int64_t>() != nullptr) return "a number";
  if (as_text() != nullptr) return "a text";
  if (as_list() != nullptr) return "a list";
  if (as_map() != nullptr) return "a map";
  if (as_namespace() != nullptr) return "a namespace";
  if (as_loop() != nullptr) return "a loop";
  return "a function";
}

TemplateText TemplateValue::shown(const TemplateWork& work) const {
  if (const TemplateText* text = as_text()) return *text;
  if (is_undefined()) return {};
  if (is_none()) return TemplateText::own("None");
  if (const auto* boolean = as<bool>()) return TemplateText::own(*boolean ? "True" : "False");
  if (const auto* integer = as<std::int64_t>()) return TemplateText::own(std::to_string(*integer));
  work.fail(kind() + " is written out");
}

bool equal(const TemplateValue& a, const TemplateValue& b, TemplateWork& work) {
  work.spend(1);
  const auto left = number_of(a), right = number_of(b);
  if (left || right) return left == right;
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    const bool alike = a.as_text()->size() == b.as_text()->size();
    if (alike) work.spend_bytes(a.as_text()->size());
    return alike && a.as_text()->bytes() == b.as_text()->bytes();
  }
  if (a.as_list() != nullptr && b.as_list() != nullptr) return equal_items(*a.as_list(), *b.as_list(), work);
  if (a.as_map() != nullptr && b.as_map() != nullptr) return equal_maps(*a.as_map(), *b.as_map(), work);
  return a.as_namespace() != nullptr && a.as_namespace() == b.as_namespace();
}

bool less(const TemplateValue& a, const TemplateValue& b, TemplateWork& work) {
  const auto left = number_of(a), right = number_of(b);
  if (left && right) return *left < *right;
  // Byte order of UTF-8 equals code point order.
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    work.spend_bytes(a.as_text()->size());
    return a.as_text()->bytes() < b.as_text()->bytes();
  }
  work.fail("a comparison of " + a.kind() + " with " + b.kind());
}

bool contains(const TemplateValue& whole, const TemplateValue& part, TemplateWork& work) {
  if (const TemplateText* text = whole.as_text()) {
    if (part.as_text() == nullptr) work.fail("the search for " + part.kind() + " in a text");
    work.spend(1 + text->size() / TemplateWork::kBytesAStep);
    return text->bytes().find(part.as_text()->bytes()) != std::string::npos;
  }
  if (const TemplateValue::Map* map = whole.as_map()) {
    work.spend(map->entries.size());
    return part.as_text() != nullptr && map->find(part.as_text()->bytes()) != nullptr;
  }
  if (const TemplateValue::List* list = whole.as_list()) {
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const auto& item) { return equal(item, part, work); });
  }
  if (whole.is_undefined()) return false;
  work.fail("the search for something in " + whole.kind());
}

TemplateItems items_of(const TemplateValue& value, TemplateWork& work) {
  if (value.as_list() != nullptr) return TemplateItems(value.shared_list());
  TemplateValue::Items items;
  if (const TemplateValue::Map* map = value.as_map()) {
    work.spend(map->entries.size());
    for (const auto& entry : map->entries) items.push_back(TemplateValue::text(TemplateText::own(entry.first)));
  } else if (const TemplateText* text = value.as_text()) {
    work.spend(4 * text->size());  // each character becomes a value of more than 100 bytes
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t n = first_code_point(std::string_view(text->bytes()).substr(at)).bytes;
      items.push_back(TemplateValue::text(text->slice({at, at + n})));
      at += n;
    }
  } else if (!value.is_undefined()) {
    work.fail("a loop over " + value.kind());
  }
  return TemplateItems(std::make_shared<const TemplateValue::List>(TemplateValue::List{std::move(items), 1}));
}

std::size_t length_of(const TemplateValue& value, TemplateWork& work) {
  if (const TemplateText* text = value.as_text()) {
    work.spend(1 + text->size() / TemplateWork::kBytesAStep);
    return n_characters(text->bytes());
  }
  if (const TemplateValue::List* list = value.as_list()) return list->items.size();
  if (const TemplateValue::Map* map = value.as_map()) return map->entries.size();
  if (value.is_undefined()) return 0;
  work.fail("the length of " + value.kind());
}

}  // namespace slip
