// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/device_draft.h"
#include "engine/speculative/draft_runner.h"

namespace slip {

// Drafts of one shape on a device: one cache, and two weight slots for the versions of each draft; a third version
// waits until no sequence uses one of them any more. All chains, whichever versions they use, grow in one launch, but
// for those bound by a grammar: these take a pass a depth, whose rows of logits cross to the CPU's masks and draws.
class DeviceDraftRunner final : public DraftRunner {
 public:
  // Error{kTooLarge} when the device has no room.
  DeviceDraftRunner(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const DraftVersion& first, const Size& size,
                    std::int32_t max_depth);

  bool fits(const DraftVersion& version) const override;
  // Puts a copy of the version's image into the queue where its weights are not on the device yet. REQUIRES: an image.
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
    std::shared_ptr<const int> lease;  // held by whoever uses the version, and here
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
  // As DeviceDraft counts them. Their images stay until DeviceDraft is gone.
  std::vector<WeightSlot> weight_slots_;
  DeviceDraft draft_;
  std::vector<DraftId> without_slots_;  // drafts that the device had no room for
  std::int64_t n_passes_ = 0;
  // Scratch of one call.
  std::vector<DeviceDraftChain> drawn_;
  std::vector<std::uint16_t> slot_of_slice_;
  std::vector<float> logits_;
  Distribution q_;
};

// What makes the images of versions that this queue's runners take.
PackDraft pack_for(std::shared_ptr<kernels::cuda::DeviceQueue> queue);

}  // namespace slip
