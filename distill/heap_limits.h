// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip {

// Fixes glibc malloc's threshold for blocks with a mapping of their own, so that freed weights, exports and state files
// go back to the system. By default the threshold rises to 32 MiB as such blocks are freed; later ones then lie between
// the temporaries in a thread's arena, which never shrinks past the last block in use. Applies to the whole process;
// the first call counts. Any thread. Does nothing without glibc. malloc_trim() is no substitute: it holds the lock of
// every arena for milliseconds, the engine thread's too, and the learner runs at idle priority.
void limit_heap();

}  // namespace slip
