// SPDX-License-Identifier: Apache-2.0
// The options of a service's parts, derived from its configuration.
#pragma once

#include <filesystem>
#include <memory>

#include "cli/config/serve_config.h"
#include "cli/target_worker.h"
#include "common/disk_space.h"
#include "distill/governor.h"
#include "distill/learner.h"
#include "distill/replay/replay_buffer.h"
#include "engine/core_sharing.h"
#include "engine/engine.h"
#include "kernels/thread_pool.h"
#include "ledger/ledger.h"

namespace slip::cli {

int engine_threads(const ServeConfig& config);
kernels::Pinning engine_pinning(const ServeConfig& config);
EngineOptions engine_options(const ServeConfig& config);
// Error{kTooLarge} when there is no memory for it.
Target make_target(const ServeConfig& config, const TargetDevice& device,
                   const std::shared_ptr<const ModelWeights>& weights, kernels::ThreadPool& pool);
std::unique_ptr<Governor> make_governor(const ServeConfig& config, CoreSharing& cores);

// `path`, made if it is not there, for this user alone. Error{kIo}.
std::filesystem::path private_folder(const std::filesystem::path& path);
// Logs what lost_ledger() finds.
void warn_of_lost_ledger(const std::filesystem::path& data_dir);
LedgerOptions ledger_options(const ServeConfig& config, std::shared_ptr<DiskSpace> disk);
ReplayOptions replay_options(const ServeConfig& config);
LearnerOptions learner_options(const ServeConfig& config, std::shared_ptr<DiskSpace> disk);

}  // namespace slip::cli
