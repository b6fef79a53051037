// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculative/prompt_lookup.h"
#include "engine/speculative/proposer.h"

namespace slip {

// Tokens of one sequence to read with one set of weights.
struct DraftSlice {
  const ModelWeights* weights = nullptr;
  PageTable* pages = nullptr;
  std::int32_t n_cached = 0;
  std::span<const std::int32_t> tokens;  // at positions n_cached …
  bool wants_logits = false;             // of the last token
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

  // Other choices for a place of the chain, the best first. They join the proposal once the chain is complete.
  struct Siblings {
    std::int32_t n = 0;
    std::array<std::int32_t, kMaxTreeWidth - 1> tokens{};
    void add(std::int32_t token) { tokens[static_cast<std::size_t>(n++)] = token; }
  };
  std::array<Siblings, kMaxProposalNodes> siblings{};  // by depth

  // The number of committed tokens that the draft has not read, at least the last one, and of proposed ones. Rows of a
  // proposal that was never verified are not committed: drops them from n_cached if nothing was proposed yet.
  std::int32_t count_unread() const;
  // Adds a token that is right with the probability exp(log_q).
  void add(std::int32_t token, double log_q);
  // What a further token brings beyond the price of its row; meaningless without a rule.
  double worth_of_next() const { return reached * stop.next_rate - stop.row_price; }
  // Whether it may grow, as far as its rule says.
  bool goes_on() const { return stop.rates == nullptr || proposal->size() == 0 || worth_of_next() > 0; }
};

// A draft pass reads at most so many tokens of a sequence. With more that are unread, the draft first catches up.
inline constexpr std::int32_t kMostUnreadRows = 8;

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
  // drawn likewise from what their elders leave: the next best ones, the next best with the target's noise, or sampled
  // without replacement. May reorder the chains.
  virtual void propose(std::span<DraftChain> chains) = 0;

 protected:
  // propose() with at most one pass per depth. The CPU transforms the logits, mixes in the prompt lookup's guesses and
  // draws. Guesses that are sure need no pass; the draft reads them with the token that follows.
  void grow_by_logits(std::span<DraftChain> chains);
  // Runs one pass. logits(i) is then the logits [vocab] of the i-th slice that wanted them, until the next pass.
  virtual void run(std::span<const DraftSlice> slices) = 0;
  virtual std::span<const float> logits(std::size_t i) const = 0;

 private:
  bool run_pass(std::span<DraftChain> chains);
  void add_sure_guesses(DraftChain& chain);
  std::span<const std::int32_t> unread(const DraftChain& chain);
  void extend(DraftChain& chain, std::span<const float> logits);
  static void choose_siblings(DraftChain& chain, std::span<const float> logits, std::int32_t token, std::int32_t loser);
  void draw_siblings(DraftChain& chain, const RandomAddress& address, std::int32_t token);
  void add_siblings(DraftChain& chain);

  // Scratch of one call.
  std::vector<DraftSlice> slices_;
  std::vector<DraftChain*> chain_of_slice_;
  std::vector<std::int32_t> joined_;  // unread tokens of chains with both committed and proposed ones
  std::vector<std::int32_t> path_;
  Distribution q_;
};

// "draft NAME vNUMBER", for the log.
std::string describe(const DraftVersion& version);

}  // namespace slip
