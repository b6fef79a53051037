// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "engine/grammar/byte_automaton.h"

namespace slip {

// The JSON strings, quotes included and canonically spelled, in which a regular expression is found: JSON Schema's
// `pattern`, ECMA-262 read by code points. Supported: characters, escapes, classes, groups, alternation, quantifiers,
// and ^ and $ at the ends of a whole alternative; Error{kUnsupported | kInvalidArgument} naming budget.where and the
// place for anything else.
ByteAutomaton pattern_automaton(std::string_view pattern, AutomatonBudget& budget);

}  // namespace slip
