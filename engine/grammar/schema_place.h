// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace slip {

// Keeps the order of keys, since properties are written in the schema's order.
using SchemaJson = nlohmann::ordered_json;

// One schema within a JSON schema, and its path as its author would write it ("….properties.a"). A view: the document
// outlives it. Errors are Error{kInvalidArgument | kUnsupported} whose param() is the path.
class SchemaPlace {
 public:
  SchemaPlace(const SchemaJson& json, std::string path) : json_(&json), path_(std::move(path)) {}

  const SchemaJson& json() const { return *json_; }
  const std::string& path() const { return path_; }
  bool has(const char* key) const { return json_->is_object() && json_->contains(key); }
  SchemaPlace at(const std::string& key) const;
  SchemaPlace at(std::size_t index) const;
  // Nullopt when the keyword is absent; refuses counts beyond 2^30.
  std::optional<std::int32_t> count(const char* key) const;

  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse_unsupported(const std::string& why = "is not supported") const;

 private:
  const SchemaJson* json_;
  std::string path_;
};

// Sets of JSON's types; integers are numbers here.
enum class JsonKind : std::uint8_t { kNull = 1, kBoolean = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32 };
using JsonKinds = std::uint8_t;
inline constexpr JsonKinds kAllKinds = 63;
JsonKinds kind_of(const SchemaJson& value);

// The document of a schema, which resolves its references. Threads: one owner.
class SchemaDocument {
 public:
  explicit SchemaDocument(SchemaPlace root) : root_(std::move(root)) {}
  const SchemaPlace& root() const { return root_; }
  // The schema that the "$ref" of `place` names; it must be in this document.
  SchemaPlace resolve(const SchemaPlace& place) const;
  // Follows a chain of references that have no other keywords; `place` itself if it is none.
  SchemaPlace resolve_all(SchemaPlace place) const;
  // The references that were read; each is read once. For tests.
  std::size_t n_references_read() const { return n_references_read_; }

 private:
  SchemaPlace find(const SchemaPlace& reference) const;

  SchemaPlace root_;
  mutable std::map<const SchemaJson*, SchemaPlace> resolved_;  // by the place of the "$ref"
  mutable std::size_t n_references_read_ = 0;
};

// "nullable" of OpenAPI 3.0; false when absent.
bool is_nullable(const SchemaPlace& place);
// The names in "type" (a name or a list of names), with "null" if the place is nullable; empty when absent.
std::vector<std::string> declared_types(const SchemaPlace& place);

}  // namespace slip
