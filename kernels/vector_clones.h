// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks a function with loops over floats: compiled once per x86-64 level, and the best is picked when the program
// starts. Sanitizers cannot run before the resolvers that pick, so their builds take the plain function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SLIP_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SLIP_VECTOR_CLONES
#endif
