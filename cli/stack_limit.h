// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip::cli {

// Gives this thread, and those that start later, the stacks that the kernels need: attention keeps more than a megabyte
// there. Call it before the first thread. Error{kUnavailable}: `ulimit -s` does not allow it.
void allow_large_stacks();

}  // namespace slip::cli
