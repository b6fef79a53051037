// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/grammar/schema_place.h"

namespace slip {

// Finds out whether one value can satisfy two schemas of a document. The compiler treats a `oneOf` as an `anyOf`, which
// is correct only if no two alternatives overlap. Threads: one owner.
class SchemaOverlap {
 public:
  // `document` outlives this object.
  explicit SchemaOverlap(const SchemaDocument& document) : document_(document) {}
  // False: no value satisfies both. The two differ in their types or in their listed values (enum, const). Or one
  // requires a property of an object that the other excludes or lists other values for. True: a value may satisfy both,
  // or all calls together exceeded 2^22 comparisons. Error{kInvalidArgument | kUnsupported} for a "$ref" that cannot be
  // resolved.
  bool might(const SchemaPlace& a, const SchemaPlace& b);

 private:
  // Values of enum or const.
  struct Values {
    JsonKinds kinds = 0;
    std::vector<std::string> texts;  // sorted; equal values have equal texts, whatever the order of their keys
  };

  const SchemaPlace& target_of(const SchemaPlace& reference);  // after all its references
  JsonKinds kinds_of(const SchemaPlace& reference, int depth);
  JsonKinds find_kinds(const SchemaPlace& place, int depth);
  const Values* values_of(const SchemaPlace& place);  // null: it has neither enum nor const
  bool share_a_value(const Values& a, const Values& b);
  bool are_told_apart(const SchemaPlace& a, const SchemaPlace& b);
  bool take_steps(std::size_t n);  // false: the limit of comparisons is reached

  const SchemaDocument& document_;
  std::map<const SchemaJson*, SchemaPlace> targets_;
  std::map<const SchemaJson*, JsonKinds> kinds_;
  std::map<const SchemaJson*, std::optional<Values>> values_;
  std::size_t n_steps_ = 0;
};

}  // namespace slip
