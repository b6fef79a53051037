// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// SQLite reads and writes the index of a WAL (NAME-shm) through a mapping. An access behind the file's end raises
// SIGBUS, so whoever cuts that file beneath a running process would end it. These two keep the process alive.

// Installs a handler of SIGBUS, once in a process. Where the access was to such an index, the handler fills the file
// with zeros at the length that is mapped, counts the cut and lets the access run again. In all other cases the signal
// does what it did before. Threads: any.
void survive_cut_indexes();

// Cuts that were survived so far, of all indexes. While the count grows, SQLite may have read zeros, with which it
// finds old pages: what it read must not be used, and no transaction may be committed. Threads: any.
std::uint64_t index_cuts() noexcept;

}  // namespace slip
