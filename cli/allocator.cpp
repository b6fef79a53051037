// SPDX-License-Identifier: Apache-2.0
// The program allocates with jemalloc. In glibc's arenas what lives long lies between the temporaries of training, so
// their memory never went back: 1.4 times as much after an hour on four topics.

// jemalloc reads it before main. Freed memory goes back after two seconds, from a thread of jemalloc's own. With
// more arenas than threads that allocate, the engine never waits for a lock that the learner's idle thread holds.
extern "C" {
extern const char* const malloc_conf;
const char* const malloc_conf = "background_thread:true,narenas:64,dirty_decay_ms:2000";
}
