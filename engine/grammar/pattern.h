// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "engine/grammar/byte_automaton.h"

namespace slip {

// The JSON strings, quotes included and canonically spelled, that contain a match of a regular expression: JSON
// Schema's `pattern`, ECMA-262 over code points. Supported: characters, escapes, classes, groups, alternation,
// quantifiers, and ^ and $ at the ends of a whole alternative. Anything else is Error{kUnsupported | kInvalidArgument}
// naming budget.where and the position.
ByteAutomaton pattern_automaton(std::string_view pattern, AutomatonBudget& budget);

}  // namespace slip
