// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/chat_template/template_text.h"

namespace slip {

struct TemplateNode;
class TemplateWork;

// A value in a chat template: Python's types as far as real templates need them. No floats, no cycles. Cheap to copy;
// lists and maps are immutable, namespaces are not.
class TemplateValue {
 public:
  struct Undefined {
    std::string name;  // the missing name, for error messages
  };
  struct None {};
  enum class Function : std::uint8_t { kNamespace, kRaiseException, kStrftimeNow, kRange, kDict };
  struct List {
    std::vector<TemplateValue> items;
    int depth = 1;
  };
  struct Map {
    std::vector<std::pair<std::string, TemplateValue>> entries;  // in insertion order, keys distinct
    int depth = 1;
    const TemplateValue* find(std::string_view key) const;
  };
  struct Namespace {
    Map map;
  };
  struct Loop {
    std::shared_ptr<const List> items;
    std::size_t index = 0;
  };
  using Items = std::vector<TemplateValue>;

  TemplateValue() = default;  // undefined
  static TemplateValue undefined(std::string name);
  static TemplateValue none() { return TemplateValue(None{}); }
  static TemplateValue boolean(bool value) { return TemplateValue(value); }
  static TemplateValue integer(std::int64_t value) { return TemplateValue(value); }
  static TemplateValue text(TemplateText text);
  static TemplateValue function(Function which) { return TemplateValue(which); }
  static TemplateValue macro(const TemplateNode& node) { return TemplateValue(&node); }
  static TemplateValue loop(Loop loop);
  // Fails beyond TemplateWork::kMostLevels levels, and for values that cannot be elements.
  static TemplateValue list(Items items, const TemplateWork& work);
  static TemplateValue map(Map map, const TemplateWork& work);
  static TemplateValue new_namespace(Map map, const TemplateWork& work);

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  const TemplateText* as_text() const { return pointed_to<const TemplateText>(); }
  const List* as_list() const { return pointed_to<const List>(); }
  const Map* as_map() const { return pointed_to<const Map>(); }
  Namespace* as_namespace() const { return pointed_to<Namespace>(); }
  const Loop* as_loop() const { return pointed_to<const Loop>(); }
  std::shared_ptr<const List> shared_list() const;  // REQUIRES: as_list() != nullptr

  bool truth() const;                                  // Python's truth value
  std::string kind() const;                            // "a list", for errors
  TemplateText shown(const TemplateWork& work) const;  // Python's str(); fails for lists, maps and other containers
  int depth() const;                                   // nesting depth of lists and maps

 private:
  using Data = std::variant<Undefined, None, bool, std::int64_t, std::shared_ptr<const TemplateText>,
                            std::shared_ptr<const List>, std::shared_ptr<const Map>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const Loop>, const TemplateNode*, Function>;
  explicit TemplateValue(Data data) : data_(std::move(data)) {}
  template <typename T>
  T* pointed_to() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }
  void check_inside(const TemplateWork& work) const;  // fails unless this may be an element of a list or map

  Data data_;
};

// Python's == and <. Comparing values without an order fails.
bool equal(const TemplateValue& a, const TemplateValue& b, TemplateWork& work);
bool less(const TemplateValue& a, const TemplateValue& b, TemplateWork& work);
bool contains(const TemplateValue& whole, const TemplateValue& part, TemplateWork& work);  // part in whole

// The items of a loop, immutable. Owns their list: the list of a text or map is made for the loop, and nothing else
// keeps it alive.
class TemplateItems {
 public:
  explicit TemplateItems(std::shared_ptr<const TemplateValue::List> list) : list_(std::move(list)) {}
  auto begin() const { return list_->items.begin(); }
  auto end() const { return list_->items.end(); }
  std::size_t size() const { return list_->items.size(); }
  bool empty() const { return list_->items.empty(); }
  const TemplateValue& operator[](std::size_t index) const { return list_->items[index]; }
  const std::shared_ptr<const TemplateValue::List>& list() const& { return list_; }
  void list() && = delete;  // the result would outlive its list

 private:
  std::shared_ptr<const TemplateValue::List> list_;
};
// A list's items, a map's keys, a text's characters; none for an undefined value.
TemplateItems items_of(const TemplateValue& value, TemplateWork& work);
std::size_t length_of(const TemplateValue& value, TemplateWork& work);

}  // namespace slip
