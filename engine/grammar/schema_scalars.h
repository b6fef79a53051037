// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/grammar/json_lexemes.h"
#include "engine/grammar/schema_place.h"

namespace slip {

// The strings that minLength, maxLength, pattern and format of a schema allow. If it has any of them, characters are
// spelled canonically. Errors as SchemaPlace's; for a schema that is too expensive, as AutomatonBudget's.
Lexeme string_lexeme(const SchemaPlace& place, AutomatonBudget& budget);
// The numbers that its minimum, maximum, exclusiveMinimum, exclusiveMaximum and multipleOf allow.
Lexeme number_lexeme(const SchemaPlace& place, bool integer, AutomatonBudget& budget);
// The values of its enum or const that have one of its types, each as its shortest text.
Lexeme listed_lexeme(const SchemaPlace& place, AutomatonBudget& budget);

// The values of enum or const, in the schema; nullopt when it has neither. Not copies: nlohmann frees part of a copy by
// allocating, which ends the process where memory is exhausted.
std::optional<std::vector<const SchemaJson*>> listed_values(const SchemaPlace& place);

}  // namespace slip
