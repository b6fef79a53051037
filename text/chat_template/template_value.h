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

// What a chat template computes with: Python's values as far as real templates need them. There are no fractions, and
// no value contains itself. Cheap to copy; lists and maps are never changed, only namespaces are.
class TemplateValue {
 public:
  struct Undefined {
    std::string name;  // what was asked for, for errors
  };
  struct None {};
  enum class Function : std::uint8_t { kNamespace, kRaiseException, kStrftimeNow, kRange, kDict };
  struct List {
    std::vector<TemplateValue> items;
    int depth = 1;
  };
  struct Map {
    std::vector<std::pair<std::string, TemplateValue>> entries;  // in order, keys distinct
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
  // Fails for more levels than a template has reason to build, and for what must not be inside a value.
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

  bool truth() const;                                  // Python's
  std::string kind() const;                            // "a list", for errors
  TemplateText shown(const TemplateWork& work) const;  // Python's str(); fails for lists, maps and the like
  int depth() const;                                   // levels of lists and maps

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
  void check_inside(const TemplateWork& work) const;  // that this may be inside a value

  Data data_;
};

// Python's == and <; comparisons of what has no order fail.
bool equal(const TemplateValue& a, const TemplateValue& b, TemplateWork& work);
bool less(const TemplateValue& a, const TemplateValue& b, TemplateWork& work);
bool contains(const TemplateValue& whole, const TemplateValue& part, TemplateWork& work);  // part in whole
// What a loop goes over: items, keys, characters; nothing for what is undefined.
std::shared_ptr<const TemplateValue::List> items_of(const TemplateValue& value, TemplateWork& work);
std::size_t length_of(const TemplateValue& value, TemplateWork& work);

}  // namespace slip
