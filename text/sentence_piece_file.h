// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// Check the parts of a tokenizer.model that Google's library trusts: a plausible number of distinct, non-empty pieces
// with finite scores, and a character map that stays inside its own tables. `where` names the file in
// Error{kInvalidArgument | kTooLarge}.
void check_sentence_piece_file(std::string_view bytes, const std::string& where);

}  // namespace slip
