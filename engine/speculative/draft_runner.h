// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculative/branches.h"
#include "engine/speculative/lookup/prompt_lookup.h"
#include "engine/speculative/proposer.h"
#include "engine/speculative/step_rows.h"

namespace slip {

// A slice to read with one set of weights.
struct DraftSlice : SequenceSlice {
  const ModelWeights* weights = nullptr;
  bool wants_logits = false;  // of the last token
  BranchPlaces branch;        // not empty: its rows branch off a proposal, and all of their logits are wanted
};

// One sequence's chain while it is drafted, and the siblings of its tokens.
struct DraftChain {
  const SequenceRef* sequence = nullptr;
  const DraftVersion* version = nullptr;
  PageTable* pages = nullptr;
  std::int32_t* n_cached = nullptr;  // tokens in the draft's cache; updated
  Proposal* proposal = nullptr;      // with its draw method set
  std::int32_t nodes = 0;            // maximum tokens of the chain
  std::int32_t width = 1;            // maximum tokens for one place; a runner may propose fewer
  bool* broken = nullptr;            // set when the draft's logits are not finite
  PromptLookup* lookup = nullptr;    // has read the committed tokens; null: the draft alone
  StopRule stop;                     // a runner may ignore it
  double reached = 1;                // P(all proposed tokens are accepted), by `stop`

  std::array<Siblings, kMaxProposalNodes> siblings{};  // of its tokens; they join the proposal once it is complete

  // The number of tokens that the draft has not read: committed ones, at least the last, and proposed ones. If nothing
  // is proposed yet, drops rows of a proposal that was never verified from n_cached.
  std::int32_t count_unread() const;
  // Adds a token that is right with the probability exp(log_q).
  void add(std::int32_t token, double log_q, ProposedBy by = ProposedBy::kDraft);
  // The worth of a further token less the price of its row; meaningless without a rule.
  double worth_of_next() const { return reached * stop.next_rate - stop.row_price; }
  // Whether its rule lets it grow.
  bool goes_on() const { return stop.rates == nullptr || proposal->size() == 0 || worth_of_next() > 0; }
};

// The most tokens of a sequence that one draft pass reads. With more unread tokens, the draft first catches up.
inline constexpr std::int32_t kMostUnreadRows = 8;
// Rows of one draft pass that branch off proposals, over all sequences.
inline constexpr std::int32_t kMostBranchRows = 8;

// Runs drafts of one shape, which share a cache and their passes, on the CPU (LocalDraftRunner) or on a device
// (DeviceDraftRunner). Threads: one owner.
class DraftRunner {
 public:
  struct Size {
    std::int32_t n_pages = 0, max_rows = 0, max_logit_rows = 0;
  };
  virtual ~DraftRunner() = default;

  virtual bool fits(const DraftVersion& version) const = 0;
  // Prepares a version that fits for passes; it stays ready while the returned pointer is held. Null: there is no room
  // for it now.
  virtual std::shared_ptr<const void> admit(const std::shared_ptr<const DraftVersion>& version) = 0;
  virtual const ModelConfig& config() const = 0;
  virtual PagePool& cache() = 0;
  virtual std::int64_t n_passes() const = 0;

  // Reads the slices' tokens into the cache. REQUIRES of both functions: admitted weights, equal ones adjacent; room in
  // every page table; rows within Size.
  virtual void read(std::span<const DraftSlice> slices) = 0;
  // Draws each chain's tokens with the request's own transform and random addresses, as the target does. Siblings are
  // drawn likewise, without the tokens of earlier ones: the next best, the next best with the target's noise, or
  // sampled without replacement. May reorder the chains.
  virtual void propose(std::span<DraftChain> chains) = 0;

 protected:
  // propose() with at most one pass per depth, then more while reading siblings pays. The CPU transforms the logits,
  // mixes in the prompt lookup's guesses and draws. Guesses that are sure need no pass; the draft reads them with the
  // token that follows. Siblings are read, so that the draft continues them, where their rates are known. With
  // DrawMethod::kSampled that is so for rates by rank alone: whether a sampled node is proposed must not depend on its
  // own token, and other rates look at it to place what follows.
  void grow_by_logits(std::span<DraftChain> chains);
  // Whether run() takes slices of branches.
  virtual bool reads_branches() const { return false; }
  // Runs one pass. logits(i) is then the i-th row [vocab] of the logits that slices wanted, until the next pass.
  virtual void run(std::span<const DraftSlice> slices) = 0;
  virtual std::span<const float> logits(std::size_t i) const = 0;

 private:
  bool run_pass(std::span<DraftChain> chains);
  void add_sure_guesses(DraftChain& chain);
  std::span<const std::int32_t> unread(const DraftChain& chain);
  void extend(DraftChain& chain, std::span<const float> logits);
  // The random numbers of one place's tokens.
  struct PlaceAddress {
    RandomAddress address;
    std::uint32_t first_number = 0;  // of DrawMethod::kSampled
  };
  PlaceAddress address_of(const DraftChain& chain, std::int32_t depth, std::int32_t row = -1) const;
  std::int32_t draw(DrawMethod method, const PlaceAddress& at, std::int32_t rank) const;
  void draw_siblings(const DraftChain& chain, const PlaceAddress& at, std::int32_t token, Siblings& siblings);
  // A node of one chain's Branches that a pass reads.
  struct BranchRow {
    std::size_t chain = 0;
    std::int32_t index = 0;  // in its Branches
    double worth = 0;        // in tokens, less its price
  };
  bool run_branch_pass(std::span<DraftChain> chains);
  BranchRow best_branch_row(std::span<DraftChain> chains) const;
  double choose_branch_rows(std::span<DraftChain> chains);
  void add_branch_slices(std::span<DraftChain> chains);
  void extend_branch(DraftChain& chain, Branches& branches, std::int32_t index, std::span<const float> logits);
  void find_q(const DraftChain& chain, Branches& branches, std::int32_t index);
  void add_branches(DraftChain& chain, Branches& branches);

  // Scratch of one call.
  std::vector<DraftSlice> slices_;
  std::vector<DraftChain*> chain_of_slice_;
  std::vector<std::int32_t> joined_;  // unread tokens of chains with both committed and proposed ones
  std::vector<std::int32_t> path_;
  Distribution q_;
  std::vector<Branches> branches_;      // of each chain
  std::vector<BranchRow> branch_rows_;  // of one pass
  std::vector<std::int32_t> branch_tokens_, branch_positions_;
  std::vector<std::uint64_t> branch_seen_;
  std::vector<std::int32_t> node_of_;  // by index in one chain's Branches; −1: not proposed
};

// The accepted nodes whose rows a draft keeps: those of the chain, which comes first in a proposal. Pure.
std::int32_t count_accepted_of_chain(const VerifyResult& result);

// "draft NAME vNUMBER", for the log.
std::string describe(const DraftVersion& version);

}  // namespace slip
