// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace slip {

// Frees a JSON value from its leaves up without allocating. nlohmann's destructor allocates a vector, and ends the
// process when memory is exhausted. Recurses as deep as the value nests.
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

// Owns a request's JSON, which may be large, and frees it without allocating.
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

// Parses a document and keeps the order of its keys; keeps only the top-level member `member`, if named. nlohmann's
// parser copies and destroys an object's members as it grows; this one reserves their room first. REQUIRES:
// parse_strict_json() accepted `text`, so it is JSON without duplicate keys.
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view member = {});

}  // namespace slip
