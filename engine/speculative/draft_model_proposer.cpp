// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/draft_model_proposer.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/speculative/local_draft_runner.h"

namespace slip {

namespace {

constexpr std::size_t kMostRunners = 8;  // each keeps a cache and a workspace
// Tokens beyond the committed ones that a draft's cache has pages for: this step's proposal and the next one's.
constexpr std::int32_t kRoom = 2 * kMaxProposalNodes;

std::int32_t n_committed(const SequenceRef& sequence) {
  return static_cast<std::int32_t>(sequence.tokens.size());
}

MakeDraftRunner on_the_cpu(kernels::ThreadPool& pool) {
  return [&pool](const DraftVersion& first, DraftRunner::Size size) {
    return std::make_unique<LocalDraftRunner>(*first.weights, size, pool);
  };
}

}  // namespace

DraftModelProposer::DraftModelProposer(DraftModelOptions options, const ModelConfig& target, kernels::ThreadPool& pool)
    : DraftModelProposer(options, target, on_the_cpu(pool)) {}

DraftModelProposer::DraftModelProposer(DraftModelOptions options, const ModelConfig& target,
                                       MakeDraftRunner make_runner)
    : options_(options), target_vocab_(target.vocab_size), make_runner_(std::move(make_runner)) {}

DraftModelProposer::~DraftModelProposer() = default;

DraftModelProposer::Drafting* DraftModelProposer::find(RequestId id) {
  const auto found = drafting_.find(id);
  return found == drafting_.end() ? nullptr : &found->second;
}

// Null when a draft of this shape cannot be used; logs the reason.
DraftRunner* DraftModelProposer::runner_for(const DraftVersion& version) {
  for (const auto& runner : runners_) {
    if (runner->fits(version)) return runner.get();
  }
  const std::int32_t vocabulary = version.weights->config.vocab_size;
  if (vocabulary != target_vocab_ || runners_.size() == kMostRunners) {
    log_warn(describe(version) + " is refused: " +
             (vocabulary != target_vocab_ ? "its vocabulary is not the target's" : "too many shapes are in use"));
    return nullptr;
  }
  DraftRunner::Size size;
  size.n_pages = options_.n_pages;
  size.max_rows = std::max(
      {options_.prompt_chunk, options_.catch_up_chunk, options_.max_running * kMostUnreadRows, std::int32_t{1}});
  size.max_logit_rows = std::max(options_.max_running, kMostBranchRows);
  try {
    runners_.push_back(make_runner_(version, size));
  } catch (const Error& error) {
    log_warn("a draft cannot be used: " + error.message());
    return nullptr;
  }
  return runners_.back().get();
}

// Reserves pages for the tokens so far and some more. False when the pool has too few: then the draft falls behind
// until there are enough again.
bool DraftModelProposer::reserve(DraftCache& cache, const SequenceRef& sequence, std::int32_t max_positions) {
  const std::int32_t most = std::min(sequence.max_total_tokens, max_positions);
  return cache.pages.reserve(std::min(n_committed(sequence) + kRoom, most));
}

// Empty when the pool is full now; a version that can never be used is remembered as refused.
std::optional<DraftModelProposer::DraftCache> DraftModelProposer::open_cache(
    Drafting& drafting, const SequenceRef& sequence, const std::shared_ptr<const DraftVersion>& version) {
  DraftRunner* runner = drafting.runner != nullptr ? drafting.runner : runner_for(*version);
  const bool fits = runner != nullptr && runner->fits(*version);
  if (runner != nullptr && !fits) log_warn(describe(*version) + " is refused: its shape is not the one in use");
  if (!fits) {
    drafting.refused = version;
    return std::nullopt;
  }
  DraftCache cache{version, runner->admit(version), PageTable(runner->cache()), 0};
  if (cache.admitted == nullptr) return std::nullopt;
  const std::int32_t max_positions = runner->config().max_positions;
  cache.pages.expect(std::min(sequence.max_total_tokens, max_positions));
  if (!reserve(cache, sequence, max_positions)) return std::nullopt;
  drafting.runner = runner;
  return cache;
}

void DraftModelProposer::begin(const SequenceRef& sequence) {
  Drafting& drafting = drafting_[sequence.id];
  if (options_.prompt_lookup) drafting.guesses.emplace(sequence);
  refresh(drafting, sequence);
}

// Null without prompt lookup.
GuessedChain* DraftModelProposer::read_guesses(const SequenceRef& sequence) {
  Drafting* drafting = find(sequence.id);
  if (drafting == nullptr || !drafting->guesses) return nullptr;
  drafting->guesses->read(sequence);
  return &*drafting->guesses;
}

Guesses DraftModelProposer::guesses(const SequenceRef& sequence) {
  const GuessedChain* chain = read_guesses(sequence);
  return chain == nullptr ? Guesses() : chain->guesses();
}

// Opens the first draft KV cache, or one for a newer version beside the live one.
void DraftModelProposer::refresh(Drafting& drafting, const SequenceRef& sequence) {
  if (drafting.next) return;
  auto newest = sequence.live_draft->get();
  if (newest == nullptr || newest == drafting.refused) return;
  if (!drafting.live) {
    drafting.live = open_cache(drafting, sequence, newest);
  } else if (newest != drafting.live->version) {
    drafting.next = open_cache(drafting, sequence, newest);
  }
}

// Gives up the caches of a sequence that fell behind: they would have to be read again with the version that is live
// then.
void DraftModelProposer::stop_reading(Drafting& drafting, const SequenceRef& sequence) {
  drafting.next.reset();
  if (!drafting.live || drafting.broken) return;
  if (n_committed(sequence) - drafting.live->n_cached > kMostUnreadRows) drafting.live.reset();
}

CatchUpTimes DraftModelProposer::catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) {
  for (const DraftTask& task : tasks) {
    Drafting* const drafting = find(task.sequence->id);
    if (drafting == nullptr) continue;
    if (!task.reads) {
      stop_reading(*drafting, *task.sequence);
      continue;
    }
    refresh(*drafting, *task.sequence);
    for (std::optional<DraftCache>* cache : {&drafting->live, &drafting->next}) {
      if (*cache) reserve(**cache, *task.sequence, drafting->runner->config().max_positions);
    }
  }
  const std::int64_t start_us = monotonic_us();
  for (const auto& runner : runners_) {
    read_behind(*runner, tasks, /*of_next=*/false, budget.prompt_rows);
  }
  const std::int64_t swap_start_us = monotonic_us();
  // The sequence that the budget did not reach is first next time; else frequent publishes would never reach the
  // youngest.
  swap_order_.assign(tasks.begin(), tasks.end());
  const auto turn = std::find_if(swap_order_.begin(), swap_order_.end(),
                                 [&](const DraftTask& task) { return task.sequence->id == swap_turn_; });
  if (turn != swap_order_.end()) std::rotate(swap_order_.begin(), turn, swap_order_.end());
  swap_turn_.reset();
  for (const auto& runner : runners_) {
    read_behind(*runner, swap_order_, /*of_next=*/true, budget.swap_rows);
  }
  for (const DraftTask& task : tasks) {
    if (Drafting* drafting = find(task.sequence->id)) switch_if_ready(*drafting, *task.sequence);
  }
  return {swap_start_us - start_us, monotonic_us() - swap_start_us};
}

// Reads all but the last committed token: propose() reads that one, for its logits.
void DraftModelProposer::read_behind(DraftRunner& runner, std::span<const DraftTask> tasks, bool of_next,
                                     std::int32_t& rows) {
  slices_.clear();
  slice_caches_.clear();
  for (const DraftTask& task : tasks) {
    const SequenceRef& sequence = *task.sequence;
    Drafting* drafting = find(sequence.id);
    if (drafting == nullptr || drafting->runner != &runner || (drafting->broken && !of_next)) continue;
    std::optional<DraftCache>& cache = of_next ? drafting->next : drafting->live;
    if (!cache) continue;
    const std::int32_t readable =
        std::min({n_committed(sequence) - 1, runner.config().max_positions, cache->pages.capacity_slots()});
    const std::int32_t n = std::min(readable - cache->n_cached, rows);
    if (of_next && readable - cache->n_cached > rows && !swap_turn_) swap_turn_ = sequence.id;
    const bool can_wait = !of_next && n_committed(sequence) - cache->n_cached <= kMostUnreadRows;
    if (n <= 0 || can_wait) continue;
    rows -= n;
    if (!of_next && task.rows_read != nullptr) *task.rows_read = n;
    const auto tokens = sequence.tokens.subspan(static_cast<std::size_t>(cache->n_cached), static_cast<std::size_t>(n));
    slices_.push_back({{tokens, &cache->pages, cache->n_cached}, cache->version->weights.get(), false, {}});
    slice_caches_.push_back(&*cache);
  }
  if (slices_.empty()) return;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    slice_caches_[i]->n_cached += static_cast<std::int32_t>(slices_[i].tokens.size());
  }
  // Not a stable sort, which allocates; the order of equals changes no bit.
  std::sort(slices_.begin(), slices_.end(),
            [](const DraftSlice& a, const DraftSlice& b) { return a.weights < b.weights; });
  runner.read(slices_);
}

void DraftModelProposer::switch_if_ready(Drafting& drafting, const SequenceRef& sequence) {
  if (!drafting.next) return;
  const std::int32_t readable = std::min(n_committed(sequence), drafting.runner->config().max_positions);
  if (readable - drafting.next->n_cached > kMostUnreadRows) return;
  drafting.live = std::move(drafting.next);
  drafting.next.reset();
  drafting.broken = false;
}

std::int32_t DraftModelProposer::ready_depth(const SequenceRef& sequence) {
  const auto found = drafting_.find(sequence.id);
  if (found == drafting_.end() || !found->second.live || found->second.broken) return 0;
  if (n_committed(sequence) - found->second.live->n_cached > kMostUnreadRows) return 0;
  // The draft does not read the last proposed token: depth d reads positions up to committed − 2 + d.
  const std::int32_t slots =
      std::min(found->second.runner->config().max_positions, found->second.live->pages.capacity_slots());
  const std::int32_t context = slots - n_committed(sequence) + 1;
  return std::clamp(context, 0, kMaxProposalNodes);
}

std::int32_t DraftModelProposer::propose(std::span<const DraftTask> tasks) {
  const std::int64_t before = n_passes();
  for (const DraftTask& task : tasks) {
    const GuessedChain* chain = task.nodes > 0 && task.guessed ? read_guesses(*task.sequence) : nullptr;
    if (chain == nullptr) continue;
    const std::optional<DraftCache>& live = find(task.sequence->id)->live;
    task.proposal->version = live ? live->version->number : 0;
    chain->propose(task.nodes, *task.proposal);
  }
  for (const auto& runner : runners_) {
    chains_.clear();
    for (const DraftTask& task : tasks) {
      const SequenceRef& sequence = *task.sequence;
      Drafting* drafting = task.nodes > 0 && !task.guessed ? find(sequence.id) : nullptr;
      if (drafting == nullptr || drafting->runner != runner.get()) continue;
      Proposal& proposal = *task.proposal;
      proposal.draw_method = draw_method_of(sequence);
      proposal.version = drafting->live->version->number;
      proposal.confidence = guesses(sequence).confidence;
      DraftCache& cache = *drafting->live;
      chains_.push_back({&sequence, cache.version.get(), &cache.pages, &cache.n_cached, &proposal, task.nodes,
                         task.width, &drafting->broken, drafting->guesses ? &drafting->guesses->lookup() : nullptr,
                         task.stop});
    }
    if (chains_.empty()) continue;
    std::sort(chains_.begin(), chains_.end(), [](const DraftChain& a, const DraftChain& b) {
      return a.version->weights.get() < b.version->weights.get();
    });
    runner->propose(chains_);
  }
  return static_cast<std::int32_t>(n_passes() - before);
}

void DraftModelProposer::on_verified(const SequenceRef& sequence, const VerifyResult& result) {
  Drafting* drafting = find(sequence.id);
  if (drafting == nullptr || !drafting->live) return;
  // Rows read along the accepted path stay; later rows overwrite those of rejected tokens. The first nodes are the
  // chain that the draft read; it read no sibling.
  std::int32_t n_read = 0;
  while (n_read < std::ssize(result.accepted) && result.accepted[static_cast<std::size_t>(n_read)] == n_read) ++n_read;
  drafting->live->n_cached = std::min(drafting->live->n_cached, n_committed(sequence) + n_read);
}

std::int64_t DraftModelProposer::n_passes() const {
  std::int64_t n = 0;
  for (const auto& runner : runners_) n += runner->n_passes();
  return n;
}

void DraftModelProposer::release(RequestId sequence) {
  drafting_.erase(sequence);
}

}  // namespace slip
