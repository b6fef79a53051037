// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/config/serve_config.h"
#include "common/error.h"
#include "server/http/api_keys.h"

namespace slip::cli {

// The faults of a configuration that can be found without binding a port, locking the data directory or reading weights
// beyond their headers. Checks the models, their memory and vocabularies, the chat template, devices, API keys, TLS,
// access control, topics, and whether the data directory and log file can be created and written. Warns as a start
// would of a target whose own template is faulty. Creates and changes nothing.
std::vector<Error> faults_of(const ServeConfig& config, const std::string& key_in_environment);

// The keys of the file and `environment`. Errors of ApiKeys::load(); Error{kInvalidArgument} if the host needs a key
// and there is none, or if a key names a tier that is none of `tiers`, those of the configuration file.
ApiKeys load_keys(const ServeConfig& config, std::span<const SloTier> tiers, const ApiKeys& environment);

}  // namespace slip::cli
