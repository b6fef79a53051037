// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

// The name under which one HTTP request is found again, in its answer's X-Request-Id, in the log and in the ledger: the
// client's own, else ours. 1 to 128 of A-Z a-z 0-9 . _ : / + = - beginning with a letter or digit, so that it is the
// same in a header, a log line and a spreadsheet's cell.
bool is_request_id(std::string_view text);
// 16 hexadecimal digits.
std::string request_id_text(std::uint64_t number);

}  // namespace slip
