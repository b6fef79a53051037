// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

// Checks a request id: the client's X-Request-Id, under which a request is found in its answer, in the log and in the
// ledger. Without one we assign an id. 1 to 128 of A-Z a-z 0-9 . _ : / + = - beginning with a letter or digit, so that
// it is equal in a header, a log line and a spreadsheet's cell.
bool is_request_id(std::string_view text);
// A number for a request, at random and never 0: by numbers in a row a client could count the requests of others. Any
// thread. Two of a billion are equal with a probability of 3 %; equal ones among those that run are refused.
std::uint64_t new_request_number();
// The number as 16 hexadecimal digits.
std::string request_id_text(std::uint64_t number);

}  // namespace slip
