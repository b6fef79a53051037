// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::cli {

// Lets this process have `wanted` files and connections open at a time, or as many as it may give itself; returns how
// many it now may. Never lowers what it has. A shell's default of 1,024 is less than the connections we take, and
// without descriptors the ledger could not go on either.
std::uint64_t allow_open_files(std::uint64_t wanted);

// The files that a service of `max_connections` may have open: the connections, those kept for probes, and its own
// files, such as ledger, replay, drafts and log.
std::uint64_t files_for(int max_connections);

// How many connections a service may take that wants `max_connections` and may have `allowed` files open, so that the
// connections kept for probes and its own files have their place. At least 1. Beyond the limit accept() fails, and then
// no idle connection makes room and no probe comes through. Pure.
int connections_within(std::uint64_t allowed, int max_connections);

}  // namespace slip::cli
