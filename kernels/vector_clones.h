// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks a function with float loops for compilation once per x86-64 level; the best version is picked at program start.
// Sanitizer builds use the plain function, since sanitizers cannot run before the resolvers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SLIP_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SLIP_VECTOR_CLONES
#endif
