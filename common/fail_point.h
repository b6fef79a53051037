// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace slip {

// A named point at which a test can kill or fail the process. There is one before every write, fsync and rename that
// durability ("never lost", promise 5) depends on.
// Inactive (one relaxed atomic load) unless SLIPSTREAM_FAIL_POINT is set to `name:n:action`. n counts hits from 1;
// action is `kill` (SIGKILL) or `enospc`. A `*` at the end of name matches any suffix. Throws slip::Error{kIo} for
// `enospc`. Any thread.
void fail_point(std::string_view name);

// Replaces the environment's trigger and restarts the count, for tests that fork; an empty text disarms. Not while
// another thread passes a fail point.
void arm_fail_point(std::string_view trigger);

}  // namespace slip
