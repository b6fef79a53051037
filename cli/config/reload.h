// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/config/serve_config.h"

namespace slip::cli {

// The changes that a running service takes from a re-read configuration.
struct ReloadPlan {
  ServeConfig next;                        // the running configuration, with the changeable values of the file
  std::vector<std::string> changed;        // keys that take effect now
  std::vector<std::string> needs_restart;  // keys that differ and keep their running values
  std::vector<SloTier> file_tiers;         // those of the file: an API key may name one that waits for the restart
};

// Compares the running configuration with the file. Pure. Changeable are: [log], data.min_free_bytes, learning.enabled
// if learning was on at the start, aliases and examples of topics, the keys file and the default limits, and the paths
// of the TLS certificate and key. A changed list of topic names needs a restart, since topics have drafts. So does a
// change between HTTP and HTTPS, since all addresses change. (cli/serve.cpp also re-reads the key and certificate
// files.)
ReloadPlan plan_reload(const ServeConfig& running, const ServeConfig& file, bool started_with_learning);

// "log.level, topics" for log lines; "nothing" when empty.
std::string listed(const std::vector<std::string>& keys);

}  // namespace slip::cli
