// SPDX-License-Identifier: Apache-2.0
#include "cli/service/part_options.h"

#include <algorithm>
#include <utility>

#include "cli/process/usable_cores.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "distill/payback_governor.h"
#include "engine/cuda/make_target.h"
#include "ledger/lost_ledger.h"

namespace slip::cli {
namespace {

// Drafts on a device do not combine with prompt lookup; a step proposes by one of the two.
bool drafts_look_up(const ServeConfig& config) {
  return config.engine.prompt_lookup && config.device == Device::kCpu;
}

}  // namespace

void warn_of_lost_ledger(const std::filesystem::path& data_dir) {
  const auto lost = lost_ledger(data_dir);
  if (!lost) return;
  log_warn(*lost +
           ": a new ledger is begun, and the requests, acceptance rates, verdicts and loads that the old one held are "
           "lost; to have them back, stop the service and restore a copy made by `slipstream ledger backup`");
}

int engine_threads(const ServeConfig& config) {
  return config.threads > 0 ? config.threads : usable_cores();
}

// Under a CPU time quota instead of dedicated CPUs, every process would pin to the first CPUs, so pinning is off.
kernels::Pinning engine_pinning(const ServeConfig& config) {
  return config.pin_threads && !limited_by_quota() ? kernels::Pinning::kOwnCpus : kernels::Pinning::kNone;
}

EngineOptions engine_options(const ServeConfig& config) {
  EngineOptions options = config.engine;
  if (!config.speculation || (config.draft.empty() && !config.engine.prompt_lookup)) options.k = 0;
  options.stop_early = config.device == Device::kCpu;
  if (config.device != Device::kCpu) {  // drafts on a device propose chains of a planned length
    options.tree_width = 1;
    options.policy = PolicyKind::kGoodput;
  }
  return options;
}

Target make_target(const ServeConfig& config, const TargetDevice& device,
                   const std::shared_ptr<const ModelWeights>& weights, kernels::ThreadPool& pool) {
  const EngineOptions& engine = config.engine;
  // A step verifies the proposals of all running sequences and processes a chunk of prompts.
  const std::int32_t decode_rows = engine.max_running * (engine.k + 1);
  const WorkerSize size{decode_rows + engine.prefill_chunk, decode_rows + engine.max_running,
                        cache_pages(cache_options(config), weights->config, cache_room(device, weights->bytes()))};
  return make_target(device, weights, size, pool);
}

std::unique_ptr<Governor> make_governor(const ServeConfig& config, CoreSharing& cores) {
  const GovernorChoice& choice = config.governor;
  if (choice.kind == GovernorKind::kStepsPerRequest) {
    return make_steps_per_request_governor(choice.steps_per_request, &cores);
  }
  if (choice.kind == GovernorKind::kSlack) {
    return make_slack_governor(choice.latency_slack, choice.steps_per_request, monotonic_us, &cores);
  }
  PaybackOptions options;
  options.max_share = choice.max_share;
  options.payback_s = choice.payback_s;
  options.steps_per_request = choice.steps_per_request;
  return make_payback_governor(options, cores);
}

std::filesystem::path private_folder(const std::filesystem::path& path) {
  ensure_private_directory(path);
  return path;
}

LedgerOptions ledger_options(const ServeConfig& config, std::shared_ptr<DiskSpace> disk) {
  LedgerOptions options = config.ledger;
  options.disk = std::move(disk);
  options.file = config.data_dir / "ledger.db";
  warn_of_lost_ledger(config.data_dir);
  return options;
}

ReplayOptions replay_options(const ServeConfig& config) {
  ReplayOptions options = config.replay;
  options.folder = private_folder(config.data_dir / "replay");
  return options;
}

LearnerOptions learner_options(const ServeConfig& config, std::shared_ptr<DiskSpace> disk) {
  LearnerOptions options = config.learner;
  options.disk = std::move(disk);
  options.optimizer_folder = private_folder(config.data_dir / "optimizer");
  options.k = std::max(1, config.engine.k);
  options.prompt_lookup = drafts_look_up(config);
  options.serve_dtype = config.dtype;
  options.trainer.threads = options.cores;
  options.trainer.skip_looked_up = options.prompt_lookup;
  return options;
}

}  // namespace slip::cli
