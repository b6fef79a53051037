// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace slip {

// Frees all that `value` holds, from the leaves up, and allocates nothing. nlohmann's own destructor keeps what it has
// still to free in a vector: where there is no memory for that, the process ends. Recurses as deep as the value nests.
template <class Json>
void dismantle(Json& value) noexcept {
  if (value.is_array()) {
    auto& items = value.template get_ref<typename Json::array_t&>();
    for (Json& item : items) dismantle(item);
    items.clear();
  } else if (value.is_object()) {
    auto& members = value.template get_ref<typename Json::object_t&>();
    for (auto& member : members) dismantle(member.second);
    members.clear();
  }
}

// Owns what a request sent, which may be large, and frees it without allocating.
template <class Json>
class JsonDocument {
 public:
  explicit JsonDocument(Json root) noexcept : root_(std::move(root)) {}
  ~JsonDocument() { dismantle(root_); }
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const Json& root() const { return root_; }

 private:
  Json root_;
};

// A document whose objects keep the order of their keys; of its members only `member`, when one is named. nlohmann's
// own parser copies an object's members, and destroys the old ones, as the object grows; here each has its room at
// once. REQUIRES: parse_strict_json() took `text`, so it is JSON without duplicate keys.
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view member = {});

}  // namespace slip
