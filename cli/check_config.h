// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/serve_config.h"
#include "common/error.h"

namespace slip::cli {

// Everything about a configuration that can be known without binding a port, taking the data directory or reading
// weights beyond their headers: models and their vocabularies, API keys, TLS and who may connect, topics, the data
// directory. All faults at once, none changed anything.
std::vector<Error> faults_of(const ServeConfig& config, const std::string& key_in_environment);

}  // namespace slip::cli
