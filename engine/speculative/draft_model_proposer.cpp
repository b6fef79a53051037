// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/draft_model_proposer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/speculative/local_draft_runner.h"

namespace slip {

namespace {

constexpr std::size_t kMostShapes = 8;  // each keeps a cache and a workspace
// Tokens beyond the committed ones that a draft's cache has pages for: this step's proposal and the next one's.
constexpr std::int32_t kRoom = 2 * kMaxProposalNodes;

std::int32_t n_committed(const SequenceRef& sequence) {
  return static_cast<std::int32_t>(sequence.tokens.size());
}

// Slots for the tokens so far and some more.
std::int32_t slots_for(const SequenceRef& sequence, std::int32_t max_positions) {
  return std::min({n_committed(sequence) + kRoom, sequence.max_total_tokens, max_positions});
}

std::int32_t most_prefix_pages(DraftRunner& runner, double share) {
  return static_cast<std::int32_t>(share * runner.cache().n_pages());
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

DraftModelProposer::Shape::Shape(std::unique_ptr<DraftRunner> made, double prefix_share)
    : runner(std::move(made)), prefixes(runner->cache(), most_prefix_pages(*runner, prefix_share)) {}

DraftModelProposer::Drafting* DraftModelProposer::find(RequestId id) {
  const auto found = drafting_.find(id);
  return found == drafting_.end() ? nullptr : &found->second;
}

// Null when a draft of this shape cannot be used; logs the reason.
DraftModelProposer::Shape* DraftModelProposer::shape_for(const DraftVersion& version) {
  for (const auto& shape : shapes_) {
    if (shape->runner->fits(version)) return shape.get();
  }
  const std::int32_t vocabulary = version.weights->config.vocab_size;
  if (vocabulary != target_vocab_ || shapes_.size() == kMostShapes) {
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
    shapes_.push_back(std::make_unique<Shape>(make_runner_(version, size), options_.prefix_cache));
  } catch (const Error& error) {
    log_warn("a draft cannot be used: " + error.message());
    return nullptr;
  }
  return shapes_.back().get();
}

// Not by their address alone: when a version is freed, a later one may get its address, but never its control block
// while a weak pointer names that.
std::uint64_t DraftModelProposer::number_of(const std::shared_ptr<const ModelWeights>& weights) {
  for (const NumberedWeights& known : numbered_weights_) {
    if (!known.weights.owner_before(weights) && !weights.owner_before(known.weights)) return known.number;
  }
  std::erase_if(numbered_weights_, [](const NumberedWeights& known) { return known.weights.expired(); });
  numbered_weights_.push_back({weights, ++last_number_});
  return last_number_;
}

// Reserves pages for the tokens so far and some more, dropping idle prefixes where needed. False when the pool has too
// few even so: then the draft falls behind until there are enough again.
bool DraftModelProposer::reserve(Shape& shape, DraftCache& cache, const SequenceRef& sequence) {
  return shape.prefixes.reserve(cache.pages, slots_for(sequence, shape.runner->config().max_positions));
}

// Adds the pages that have become whole: those of the prompt at its end, later ones when an eighth more are there,
// since each call walks the tree from its root. Only rows of committed tokens count: propose() leaves the last
// committed token to be read and writes from there on, and on_verified() drops the rows of rejected tokens. What comes
// after the last call is not added.
void DraftModelProposer::add_prefix(Shape& shape, DraftCache& cache, const SequenceRef& sequence) {
  const std::int32_t n_read = std::min(cache.n_cached, n_committed(sequence) - 1);
  const std::int32_t n_whole = n_read / PagePool::kPageTokens;
  const std::int32_t of_prompt = sequence.prompt_tokens / PagePool::kPageTokens;
  const bool ends_prompt = cache.n_added < of_prompt && n_whole >= of_prompt;
  if (!ends_prompt && n_whole <= cache.n_added + cache.n_added / 8) return;
  try {
    shape.prefixes.add(cache.owner, sequence.tokens.first(static_cast<std::size_t>(n_read)), cache.pages);
  } catch (const std::bad_alloc&) {  // a later request reads these rows again
  }
  cache.n_added = n_whole;
}

// Takes the longest prefix that this version has read for this tenant, but never the last committed token. Empty when
// the pool is full now; a version that can never be used is remembered as refused.
std::optional<DraftModelProposer::DraftCache> DraftModelProposer::open_cache(
    Drafting& drafting, const SequenceRef& sequence, const std::shared_ptr<const DraftVersion>& version) {
  Shape* shape = drafting.shape != nullptr ? drafting.shape : shape_for(*version);
  const bool fits = shape != nullptr && shape->runner->fits(*version);
  if (shape != nullptr && !fits) log_warn(describe(*version) + " is refused: its shape is not the one in use");
  if (!fits) {
    drafting.refused = version;
    return std::nullopt;
  }
  DraftRunner& runner = *shape->runner;
  DraftCache cache{
      version, runner.admit(version), {sequence.tenant, number_of(version->weights)}, PageTable(runner.cache())};
  if (cache.admitted == nullptr) return std::nullopt;
  const std::int32_t max_positions = runner.config().max_positions, n_slots = slots_for(sequence, max_positions);
  cache.pages.expect(std::min(sequence.max_total_tokens, max_positions));
  const auto readable =
      sequence.tokens.first(static_cast<std::size_t>(std::clamp(n_committed(sequence) - 1, 0, n_slots)));
  if (!shape->prefixes.has_room(cache.owner, readable, n_slots)) return std::nullopt;
  cache.n_cached = shape->prefixes.open(cache.owner, readable, n_slots, cache.pages);
  drafting.shape = shape;
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
      if (*cache) reserve(*drafting->shape, **cache, *task.sequence);
    }
  }
  const std::int64_t start_us = monotonic_us();
  for (const auto& shape : shapes_) {
    read_behind(*shape, tasks, /*of_next=*/false, budget.prompt_rows);
  }
  const std::int64_t swap_start_us = monotonic_us();
  // The sequence that the budget did not reach is first next time; else frequent publishes would never reach the
  // youngest.
  swap_order_.assign(tasks.begin(), tasks.end());
  const auto turn = std::find_if(swap_order_.begin(), swap_order_.end(),
                                 [&](const DraftTask& task) { return task.sequence->id == swap_turn_; });
  if (turn != swap_order_.end()) std::rotate(swap_order_.begin(), turn, swap_order_.end());
  swap_turn_.reset();
  for (const auto& shape : shapes_) {
    read_behind(*shape, swap_order_, /*of_next=*/true, budget.swap_rows);
  }
  for (const DraftTask& task : tasks) {
    Drafting* const drafting = find(task.sequence->id);
    if (drafting == nullptr) continue;
    for (std::optional<DraftCache>* cache : {&drafting->live, &drafting->next}) {
      if (*cache) add_prefix(*drafting->shape, **cache, *task.sequence);
    }
    switch_if_ready(*drafting, *task.sequence);
  }
  return {swap_start_us - start_us, monotonic_us() - swap_start_us};
}

// Reads all but the last committed token: propose() reads that one, for its logits.
void DraftModelProposer::read_behind(Shape& shape, std::span<const DraftTask> tasks, bool of_next, std::int32_t& rows) {
  slices_.clear();
  slice_caches_.clear();
  for (const DraftTask& task : tasks) {
    const SequenceRef& sequence = *task.sequence;
    Drafting* drafting = find(sequence.id);
    if (drafting == nullptr || drafting->shape != &shape || (drafting->broken && !of_next)) continue;
    std::optional<DraftCache>& cache = of_next ? drafting->next : drafting->live;
    if (!cache) continue;
    const std::int32_t readable =
        std::min({n_committed(sequence) - 1, shape.runner->config().max_positions, cache->pages.capacity_slots()});
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
  shape.runner->read(slices_);
}

void DraftModelProposer::switch_if_ready(Drafting& drafting, const SequenceRef& sequence) {
  if (!drafting.next) return;
  const std::int32_t readable = std::min(n_committed(sequence), drafting.shape->runner->config().max_positions);
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
      std::min(found->second.shape->runner->config().max_positions, found->second.live->pages.capacity_slots());
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
  for (const auto& shape : shapes_) {
    chains_.clear();
    for (const DraftTask& task : tasks) {
      const SequenceRef& sequence = *task.sequence;
      Drafting* drafting = task.nodes > 0 && !task.guessed ? find(sequence.id) : nullptr;
      if (drafting == nullptr || drafting->shape != shape.get()) continue;
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
    shape->runner->propose(chains_);
  }
  return static_cast<std::int32_t>(n_passes() - before);
}

void DraftModelProposer::on_verified(const SequenceRef& sequence, const VerifyResult& result) {
  Drafting* drafting = find(sequence.id);
  if (drafting == nullptr || !drafting->live) return;
  // Rows read along the accepted path stay; later rows overwrite those of rejected tokens.
  const std::int32_t n_read = count_accepted_of_chain(result);
  drafting->live->n_cached = std::min(drafting->live->n_cached, n_committed(sequence) + n_read);
}

std::int64_t DraftModelProposer::n_passes() const {
  std::int64_t n = 0;
  for (const auto& shape : shapes_) n += shape->runner->n_passes();
  return n;
}

void DraftModelProposer::release(RequestId sequence) {
  drafting_.erase(sequence);
}

}  // namespace slip
