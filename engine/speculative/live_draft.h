// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "engine/models/transformer.h"

namespace slip {

class DeviceImage;

// One version of a draft: immutable weights with a number. A published version is never changed; readers hold a
// reference per step. All slow work, such as packing, is done before a version goes live, not on the engine thread.
struct DraftVersion {
  DraftId draft;
  std::string name;
  std::uint64_t number = 0;
  std::uint64_t parent = 0;
  std::shared_ptr<const ModelWeights> weights;  // packed for this machine's kernels
  std::shared_ptr<const DeviceImage> image;     // the same weights for the device that drafts run on; null: the CPU
};

// Makes a weight image for the device that drafts run on; empty: they run on the CPU. Threads: any. Error{kTooLarge}.
using PackDraft = std::function<std::shared_ptr<const DeviceImage>(const ModelWeights&)>;
// Returns the version ready to go live. Makes its image, on the calling thread, if there is a `pack` and the version
// has no image.
std::shared_ptr<const DraftVersion> packed(DraftVersion version, const PackDraft& pack);

// The live version of one draft. The learner installs versions. Readers take no mutex, but std::atomic<std::shared_ptr>
// may spin for a few instructions. The engine never drops a last reference: the writer keeps replaced versions in its
// own list and frees those that no one else holds (reclaim()). So megabytes are never freed inside a step. Threads:
// get() any; set() and reclaim() one writer.
class LiveDraft {
 public:
  explicit LiveDraft(DraftId id, std::string name, std::shared_ptr<const DraftVersion> first = nullptr);
  std::shared_ptr<const DraftVersion> get() const { return live_.load(std::memory_order_acquire); }
  void set(std::shared_ptr<const DraftVersion> next);
  void reclaim();
  DraftId id() const { return id_; }
  const std::string& name() const { return name_; }

 private:
  DraftId id_;
  std::string name_;
  std::atomic<std::shared_ptr<const DraftVersion>> live_;
  std::vector<std::shared_ptr<const DraftVersion>> retired_;  // writer only
};

}  // namespace slip
