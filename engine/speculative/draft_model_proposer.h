// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/kv_cache/prefix_cache.h"
#include "engine/speculative/draft_runner.h"
#include "engine/speculative/guessed_chain.h"

namespace slip {

struct DraftModelOptions {
  std::int32_t n_pages = 0;  // per shape of draft
  std::int32_t max_running = 1;
  std::int32_t prompt_chunk = 256;  // maximum rows of one catch-up call, per kind
  std::int32_t catch_up_chunk = 256;
  double prefix_cache = 0;     // maximum share of the pages for the prefix cache; 0: none
  bool prompt_lookup = false;  // propose by PromptLookup too; drafts on the CPU combine with it
};

// Makes a runner for drafts of the shape of `first`. Error{kTooLarge} when there is no memory for it.
using MakeDraftRunner = std::function<std::unique_ptr<DraftRunner>(const DraftVersion& first, DraftRunner::Size size)>;

// Proposes one chain per sequence with a draft model, and on the CPU a tree around it. One forward pass per depth
// serves all sequences, whatever their draft version. Keeps its own KV cache, with a prefix cache. After a publish, it
// builds the new version's cache in chunks beside the live one, then switches; a sequence never holds more than two
// versions. A draft with another vocabulary than the target's is never used. A new version of another shape than the
// live one is refused, and the sequence stays on the old one. Pages of a replaced version stay in the prefix cache,
// where only that version finds them, until they are the least recently used.
class DraftModelProposer final : public Proposer {
 public:
  // Drafts on the CPU.
  DraftModelProposer(DraftModelOptions options, const ModelConfig& target, kernels::ThreadPool& pool);
  // Drafts where `make_runner`'s runners run.
  DraftModelProposer(DraftModelOptions options, const ModelConfig& target, MakeDraftRunner make_runner);
  ~DraftModelProposer() override;

  bool drafts_for(const SequenceRef& sequence) const override { return sequence.live_draft != nullptr; }
  void begin(const SequenceRef& sequence) override;
  CatchUpTimes catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) override;
  std::int32_t ready_depth(const SequenceRef& sequence) override;
  Guesses guesses(const SequenceRef& sequence) override;
  std::int32_t propose(std::span<const DraftTask> tasks) override;
  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override;
  void release(RequestId sequence) override;
  std::int64_t n_passes() const;  // forward passes so far, over all shapes of draft

 private:
  // Drafts of one shape. The prefix cache holds pages of the runner's cache, so it is destroyed first.
  struct Shape {
    Shape(std::unique_ptr<DraftRunner> made, double prefix_share);
    std::unique_ptr<DraftRunner> runner;
    PrefixCache prefixes;
  };
  // The draft KV cache of one sequence for one draft version.
  struct DraftCache {
    std::shared_ptr<const DraftVersion> version;
    std::shared_ptr<const void> admitted;  // keeps the version ready for passes
    PrefixCache::Owner owner;
    PageTable pages;
    std::int32_t n_cached = 0;
    std::int32_t n_added = 0;  // whole pages that were added to the prefix cache, or refused by it
  };
  struct Drafting {
    Shape* shape = nullptr;
    std::optional<DraftCache> live, next;
    std::shared_ptr<const DraftVersion> refused;  // held, so that its address is not reused by another version
    bool broken = false;                          // its logits are not finite: propose no more
    std::optional<GuessedChain> guesses;
  };
  // Weights and their number. No other weights ever get it. Does not keep them alive.
  struct NumberedWeights {
    std::weak_ptr<const ModelWeights> weights;
    std::uint64_t number = 0;
  };
  Shape* shape_for(const DraftVersion& version);
  std::uint64_t number_of(const std::shared_ptr<const ModelWeights>& weights);
  std::optional<DraftCache> open_cache(Drafting& drafting, const SequenceRef& sequence,
                                       const std::shared_ptr<const DraftVersion>& version);
  static bool reserve(Shape& shape, DraftCache& cache, const SequenceRef& sequence);
  static void add_prefix(Shape& shape, DraftCache& cache, const SequenceRef& sequence);
  void refresh(Drafting& drafting, const SequenceRef& sequence);
  static void stop_reading(Drafting& drafting, const SequenceRef& sequence);
  void read_behind(Shape& shape, std::span<const DraftTask> tasks, bool of_next, std::int32_t& rows);
  void switch_if_ready(Drafting& drafting, const SequenceRef& sequence);
  GuessedChain* read_guesses(const SequenceRef& sequence);
  Drafting* find(RequestId id);

  DraftModelOptions options_;
  std::int32_t target_vocab_;
  MakeDraftRunner make_runner_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::vector<NumberedWeights> numbered_weights_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<RequestId, Drafting> drafting_;
  std::optional<RequestId> swap_turn_;  // the first sequence that the last swap budget did not suffice for
  // Scratch of one call.
  std::vector<DraftTask> swap_order_;
  std::vector<DraftChain> chains_;
  std::vector<DraftSlice> slices_;
  std::vector<DraftCache*> slice_caches_;
};

}  // namespace slip
