// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/config/serve_config.h"

namespace slip::cli {

// What a running service takes over from a configuration read anew.
struct ReloadPlan {
  ServeConfig next;                        // as it runs now, with what can change taken from the file
  std::vector<std::string> changed;        // keys that take effect now
  std::vector<std::string> needs_restart;  // keys that differ and stay as they run
};

// Pure. What can change: [log], data.min_free_bytes, learning.enabled where learning was on at the start, the aliases
// and examples of topics, where API keys stand and the limits of those without their own, and where the TLS certificate
// and its key stand. Another list of topic names is another set of drafts, and between HTTP and HTTPS all addresses
// change: both need a restart. (What the key and certificate files hold is read again too, see cli/serve.cpp.)
ReloadPlan plan_reload(const ServeConfig& running, const ServeConfig& file, bool started_with_learning);

// "log.level, topics" for people; "nothing" when empty.
std::string listed(const std::vector<std::string>& keys);

}  // namespace slip::cli
