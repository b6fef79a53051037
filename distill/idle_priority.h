// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip {

// For the calling thread and those it starts: it runs on cycles nobody else wants (SCHED_IDLE, or the lowest nice level
// where that is refused).
void sink_to_idle_priority();

}  // namespace slip
