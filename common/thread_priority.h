// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace slip {

// Settings of the calling thread, inherited by threads that it starts later. Best effort: one that the system refuses
// stays as it was.

inline constexpr int kLowestNice = 19;

// The nice level, 0 to 19. Restores the usual time slices, so that a thread that gives way does not interrupt others.
void set_nice(int nice);

// SCHED_IDLE, which gives way to any other thread within 1 ms and gets almost no time on a busy core. False: refused.
bool set_idle_priority();

// Short time slices: when the thread wakes up, it interrupts one with the usual slices at once, instead of waiting for
// some milliseconds. Linux 6.12 and later; others ignore it, and so do threads of another policy than SCHED_OTHER.
void ask_for_short_slices();

}  // namespace slip
