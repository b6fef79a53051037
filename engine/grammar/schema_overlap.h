// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/grammar/schema_place.h"

namespace slip {

// Whether one value might satisfy both schemas, as far as can be told from their types, from listed values, and for
// objects from a required property that tells them apart. Errs on the side of "might". A `oneOf` whose alternatives
// cannot overlap is an anyOf.
bool may_overlap(const SchemaDocument& document, const SchemaPlace& a, const SchemaPlace& b);

}  // namespace slip
