// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "engine/grammar/schema_place.h"

namespace slip {

// Whether two schemas of one document can be satisfied by the same value. Decides by their types, by listed values, and
// for objects by a required property whose values differ. Returns true when it cannot tell, also when all questions
// together take too long. A `oneOf` whose alternatives cannot overlap is an anyOf. One thread.
class SchemaOverlap {
 public:
  explicit SchemaOverlap(const SchemaDocument& document) : document_(document) {}
  bool might(const SchemaPlace& a, const SchemaPlace& b);

 private:
  // Values of enum or const, sorted; objects compare equal whatever the order of their keys.
  using Values = std::vector<nlohmann::json>;

  JsonKinds kinds_of(const SchemaPlace& reference, int depth);
  JsonKinds find_kinds(const SchemaPlace& place, int depth);
  const Values* values_of(const SchemaPlace& place);  // null when it lists none
  bool share_a_value(const Values& a, const Values& b);
  bool are_told_apart(const SchemaPlace& a, const SchemaPlace& b);
  bool take_steps(std::size_t n);

  const SchemaDocument& document_;
  std::map<const SchemaJson*, JsonKinds> kinds_;
  std::map<const SchemaJson*, std::optional<Values>> values_;
  std::size_t n_steps_ = 0;
};

}  // namespace slip
