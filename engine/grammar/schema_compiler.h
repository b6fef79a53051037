// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/grammar/grammar.h"
#include "engine/grammar/schema_place.h"

namespace slip {

// Compiles a JSON schema (2020-12, and what earlier drafts share with it) to a grammar. Every text that it accepts is
// valid by the schema. It may exclude some of the ways to write a document:
//  - properties come in the order of the schema, additional ones after them; where `properties` are given, there are
//    additional ones only if `additionalProperties` says so;
//  - values of enum and const, additional keys, and strings with a length, pattern or format are spelled in one way;
//  - a keyword of one type without `type` implies that type.
// Supported: type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
// minLength, maxLength, pattern, some formats, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf with
// few digits, anyOf, oneOf whose alternatives cannot overlap, allOf of one, $ref within the schema, recursion included,
// and OpenAPI's nullable beside a type. Anything else is Error{kUnsupported} whose param() is its path, which begins
// with `where`. Error{kInvalidArgument} if it is no schema, too large, or satisfied by nothing. Pure; any thread. Takes
// up to some tenths of a second for a schema made to be slow. REQUIRES: `schema` nests at most 64 deep, as the
// request's parser ensures.
std::shared_ptr<const Grammar> compile_schema(const SchemaJson& schema, const std::string& where);

}  // namespace slip
