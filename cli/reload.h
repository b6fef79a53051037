// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/serve_config.h"

namespace slip::cli {

// What a running service takes over from a configuration read anew.
struct ReloadPlan {
  ServeConfig next;                        // as it runs now, with what can change taken from the file
  std::vector<std::string> changed;        // keys that take effect now
  std::vector<std::string> needs_restart;  // keys that differ and stay as they run
};

// Pure. What can change: [log], data.min_free_bytes, learning.enabled where learning was on at the start, and the
// aliases of topics; another list of topic names is another set of drafts and needs a restart. (API keys are read again
// too; they are not part of a configuration.)
ReloadPlan plan_reload(const ServeConfig& running, const ServeConfig& file, bool started_with_learning);

// "log.level, topics" for people; "nothing" when empty.
std::string listed(const std::vector<std::string>& keys);

}  // namespace slip::cli
