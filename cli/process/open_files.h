// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace slip::cli {

// Below it a service has none left for a connection.
inline constexpr std::uint64_t kLeastFiles = 32;

// Raises this process's limit of open files to `wanted`, or as far as allowed; returns the new limit. Never lowers it.
// A shell's default of 1,024 is less than our connections need, and without descriptors the ledger stops too.
std::uint64_t allow_open_files(std::uint64_t wanted);

// The number of files that a service with `max_connections` may have open: connections, those for probes, and its own
// files such as ledger, replay, drafts and log.
std::uint64_t files_for(int max_connections);

// The number of connections that fit into `allowed` open files, at most `max_connections`, with room for probe
// connections and the service's own files. At least 1. Beyond the limit accept() fails: no idle connection would make
// room, and no probe would be answered. Pure.
int connections_within(std::uint64_t allowed, int max_connections);

}  // namespace slip::cli
