// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Raises the stack limits of this thread and of later ones to 8 MiB, as far as allowed: attention keeps more than 1 MiB
// on its stack. Call it before the first thread. Error{kUnavailable} if `ulimit -s` allows less than 2 MiB.
void allow_large_stacks();

}  // namespace slip::cli
