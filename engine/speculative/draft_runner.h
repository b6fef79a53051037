// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculative/prompt_lookup.h"
#include "engine/speculative/proposer.h"

namespace slip {

// The next tokens of one sequence for one set of weights.
struct DraftSlice {
  const ModelWeights* weights = nullptr;
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
  std::span<const std::int32_t> tokens;  // at positions n_cached …
  bool wants_logits = false;             // of the last token
};

// One sequence's chain while a draft runs ahead.
struct DraftChain {
  const SequenceRef* sequence = nullptr;
  const DraftVersion* version = nullptr;
  PageTable* pages = nullptr;
  std::int32_t* n_cached = nullptr;      // of the draft's cache: moves along
  Proposal* proposal = nullptr;          // its draw method is set
  std::int32_t nodes = 0;                // at most so many
  bool* broken = nullptr;                // set when the draft's numbers are not finite
  const PromptLookup* lookup = nullptr;  // has read the committed tokens; null: the draft alone

  // Committed tokens that the draft has not read, the last one at least. Rows of a proposal that was never verified are
  // not committed ones: forgets them first.
  std::span<const std::int32_t> unread() const;
};

// Drafts of one shape, which share a cache and their passes, on the CPU (LocalDraftRunner) or on a device
// (DeviceDraftRunner). Threads: one owner.
class DraftRunner {
 public:
  struct Size {
    std::int32_t n_pages = 0, max_rows = 0, max_logit_rows = 0;
  };
  virtual ~DraftRunner() = default;

  virtual bool fits(const DraftVersion& version) const = 0;
  // Makes a version that fits ready for passes, and keeps it so as long as what comes back is held. Null: there is no
  // room for it at the moment.
  virtual std::shared_ptr<const void> admit(const std::shared_ptr<const DraftVersion>& version) = 0;
  virtual const ModelConfig& config() const = 0;
  virtual PagePool& cache() = 0;
  virtual std::int64_t n_passes() const = 0;

  // Caches what the slices hold. REQUIRES of both: admitted weights, those that are equal stand together; room in every
  // page table; rows within Size.
  virtual void read(std::span<const DraftSlice> slices) = 0;
  // Chooses each chain's tokens by the request's own distribution: the target's transform, the target's noise. May
  // reorder them.
  virtual void propose(std::span<DraftChain> chains) = 0;

 protected:
  // propose() with one pass a depth, whose logits go through the CPU's transform and draws, mixed with the lookup's
  // guesses.
  void grow_by_logits(std::span<DraftChain> chains);
  // One pass; then the logits [vocab] of the i-th slice that wanted them, until the next.
  virtual void run(std::span<const DraftSlice> slices) = 0;
  virtual std::span<const float> logits(std::size_t i) const = 0;

 private:
  bool run_depth(std::span<DraftChain> chains, std::int32_t depth);
  void extend(DraftChain& chain, std::span<const float> logits);

  // Scratch of one call.
  std::vector<DraftSlice> slices_;
  std::vector<DraftChain*> chain_of_slice_;
  std::vector<std::int32_t> path_;
  Distribution q_;
};

// "draft NAME vNUMBER", for the log.
std::string describe(const DraftVersion& version);

}  // namespace slip
