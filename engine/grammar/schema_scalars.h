// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/grammar/json_lexemes.h"
#include "engine/grammar/schema_place.h"

namespace slip {

// The strings that minLength, maxLength, pattern and format of a schema leave. Where there are any, characters are
// spelled canonically. Errors: as SchemaPlace has them; for what asks for too much, as AutomatonBudget.
Lexeme string_lexeme(const SchemaPlace& place, AutomatonBudget& budget);
// The numbers that its minimum, maximum, exclusiveMinimum, exclusiveMaximum and multipleOf leave.
Lexeme number_lexeme(const SchemaPlace& place, bool integer, AutomatonBudget& budget);
// The values of its enum or const that are of one of its types, each as its shortest text.
Lexeme listed_lexeme(const SchemaPlace& place, AutomatonBudget& budget);

// The values of enum or const; nullopt when it has neither.
std::optional<std::vector<SchemaJson>> listed_values(const SchemaPlace& place);

}  // namespace slip
