// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace slip {

// What Google's library takes on trust when it reads a tokenizer.model: that pieces are as many as a vocabulary can
// have, named, distinct and of finite score, and that the automaton which replaces characters leads nowhere outside its
// own tables. `where` names the file in Error{kInvalidArgument | kTooLarge}.
void check_sentence_piece_file(std::string_view bytes, const std::string& where);

}  // namespace slip
