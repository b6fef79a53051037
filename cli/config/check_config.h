// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/config/serve_config.h"
#include "common/error.h"

namespace slip::cli {

// The faults of a configuration that are known without binding a port, taking the data directory or reading weights
// beyond their headers. Checked are the models and their vocabularies, a chat template that was asked for, the devices,
// API keys, TLS and who may connect, topics, and whether data directory and log file can be made and written. Nothing
// is made or changed.
std::vector<Error> faults_of(const ServeConfig& config, const std::string& key_in_environment);

}  // namespace slip::cli
