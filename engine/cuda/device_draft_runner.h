// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/device_draft.h"
#include "engine/speculative/draft_runner.h"

namespace slip {

// Runs drafts of one shape on a device, with one cache and two weight slots for the versions of each draft. A third
// version waits until no sequence uses one of the two. All chains, whatever their versions, are drafted in one launch,
// except those with a grammar. These take one pass per depth, whose logits are copied to the host for masks and draws.
class DeviceDraftRunner final : public DraftRunner {
 public:
  // Error{kTooLarge} when the device has no room.
  DeviceDraftRunner(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const DraftVersion& first, const Size& size,
                    std::int32_t max_depth);

  bool fits(const DraftVersion& version) const override;
  // Enqueues a copy of the version's image if its weights are not on the device yet. REQUIRES: an image.
  std::shared_ptr<const void> admit(const std::shared_ptr<const DraftVersion>& version) override;
  const ModelConfig& config() const override { return draft_.config(); }
  PagePool& cache() override { return draft_.cache(); }
  std::int64_t n_passes() const override { return n_passes_; }
  void read(std::span<const DraftSlice> slices) override;
  void propose(std::span<DraftChain> chains) override;

 private:
  struct WeightSlot {
    DraftId draft;
    std::shared_ptr<const DraftVersion> version;
    std::shared_ptr<const int> lease;  // held by each user of the version, and here
    bool is_idle() const { return lease.use_count() <= 1; }
  };

  void run(std::span<const DraftSlice> slices) override;
  std::span<const float> logits(std::size_t i) const override;
  void add_slot(DraftId draft);
  void make_weight_slots(DraftId draft);
  std::uint16_t slot_of(const ModelWeights* weights) const;
  void draw(std::span<DraftChain> chains);
  void take(std::size_t drawn, DraftChain& chain);

  std::shared_ptr<kernels::cuda::DeviceQueue> queue_;
  // Indexed as in DeviceDraft. Their images stay until DeviceDraft is destroyed.
  std::vector<WeightSlot> weight_slots_;
  DeviceDraft draft_;
  std::vector<DraftId> without_slots_;  // drafts without weight slots, for lack of device memory
  std::int64_t n_passes_ = 0;
  // Scratch of one call.
  std::vector<DeviceDraftChain> drawn_;
  std::vector<std::uint16_t> slot_of_slice_;
  std::vector<float> logits_;
  Distribution q_;
};

// Makes the images of versions for the runners of this queue.
PackDraft pack_for(std::shared_ptr<kernels::cuda::DeviceQueue> queue);

}  // namespace slip
