// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace slip {

// A named instant at which a test may kill or fail the process: before and after every write, fsync and rename that
// promise 5 ("never lost") rests on. Inactive (one relaxed atomic load) unless SLIPSTREAM_FAIL_POINT is set to
// `name:n:action`, where n counts hits from 1 and action is `kill` (SIGKILL, like kill -9) or `enospc`.
// A `*` at the end of name matches any suffix. Throws slip::Error{kIo} for `enospc`.
// Any thread.
void fail_point(std::string_view name);

// For tests that fork, where the environment was read long ago: replaces what the environment said and counts hits
// anew; an empty text disarms. Not while another thread passes a fail point.
void arm_fail_point(std::string_view trigger);

}  // namespace slip
