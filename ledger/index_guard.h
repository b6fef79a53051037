// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip {

// SQLite maps the index of a WAL (NAME-shm) into memory. If another process cuts that file, SQLite's next access past
// the new end raises SIGBUS, which ends this process. The functions below prevent that.

// Installs a handler of SIGBUS, once in a process. Where the access was to such an index, the handler fills the file
// with zeros at the length that is mapped, counts the cut and lets the access run again. In all other cases the signal
// does what it did before. Threads: any.
void survive_cut_indexes();

// Cuts that were survived so far, of all indexes. While the count grows, SQLite may have read zeros, with which it
// finds old pages: what it read must not be used, and no transaction may be committed. Threads: any.
std::uint64_t index_cuts() noexcept;

}  // namespace slip
