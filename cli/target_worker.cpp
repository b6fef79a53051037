// SPDX-License-Identifier: Apache-2.0
#include "cli/target_worker.h"

#include <utility>
#include <vector>

#include "cli/process/usable_memory.h"
#include "engine/cuda/device_draft_runner.h"
#include "engine/speculative/lookup_proposer.h"
#include "engine/speculative/proposal.h"
#include "engine/speculative/proposer_list.h"
#include "kernels/cuda/stream_queue.h"

namespace slip::cli {
namespace {

constexpr std::uint64_t kShareOfHost = 4, kShareOfDevice = 2;  // divisors of the host's and the device's memory

}  // namespace

TargetDevice open_target_device(Device device) {
  return device == Device::kCuda ? TargetDevice(kernels::cuda::open_device()) : nullptr;
}

std::unique_ptr<Proposer> make_proposer(const TargetDevice& device, const EngineOptions& options, Worker& target,
                                        kernels::ThreadPool& pool) {
  const DraftModelOptions draft = draft_model_options(options, target);
  std::vector<std::unique_ptr<Proposer>> proposers;
  if (device == nullptr) {
    proposers.push_back(std::make_unique<DraftModelProposer>(draft, target.config(), pool));
  } else {
    const MakeDraftRunner on_device = [device](const DraftVersion& first, DraftRunner::Size size) {
      return std::make_unique<DeviceDraftRunner>(device, first, size, kMaxProposalNodes);
    };
    proposers.push_back(std::make_unique<DraftModelProposer>(draft, target.config(), on_device));
  }
  if (options.prompt_lookup) proposers.push_back(std::make_unique<LookupProposer>());
  return std::make_unique<ProposerList>(std::move(proposers));
}

PackDraft draft_packing(const TargetDevice& device) {
  return device == nullptr ? PackDraft() : pack_for(device);
}

CacheRoom cache_room(const TargetDevice& device, std::uint64_t weight_bytes) {
  const std::uint64_t all = device == nullptr ? usable_memory_bytes() : device->free_bytes();
  const std::uint64_t left = all > weight_bytes ? all - weight_bytes : 0;
  return {device == nullptr ? all / kShareOfHost : left / kShareOfDevice, left};
}

}  // namespace slip::cli
