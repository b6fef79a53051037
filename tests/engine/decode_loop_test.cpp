// SPDX-License-Identifier: Apache-2.0
// After warm-up, the decode loop of target and draft allocates nothing and takes no lock. This program replaces
// operator new and pthread_mutex_lock to count calls.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>

#include "engine/speculative/draft_model_proposer.h"
#include "engine/speculative/local_verifier.h"
#include "tests/engine/draft_tasks.h"
#include "tests/engine/models/batch_step.h"
#include "tests/engine/models/embedded_target.h"
#include "tests/engine/tiny_draft.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLIP_OWN_LOCKS 0  // the sanitizer's own stand in this place
#else
#define SLIP_OWN_LOCKS 1
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<int> n_allocations{0}, n_locks{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) ++n_allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other forms of new and delete call these.
void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#if SLIP_OWN_LOCKS
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto real = reinterpret_cast<Lock>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting.load(std::memory_order_relaxed)) ++n_locks;
  return real(mutex);
}
#endif

namespace slip {
namespace {

using testing::draft_tasks;
using testing::embedded_target;
using testing::make_live_draft;
using testing::random_tokens;
using testing::tiny_draft;
using testing::tiny_draft_config;

struct Counts {
  int allocations = 0, locks = 0;
};

Counts count(const std::function<void()>& work) {
  n_allocations = 0;
  n_locks = 0;
  counting = true;
  work();
  counting = false;
  return {n_allocations, n_locks};
}

constexpr std::int32_t kSequences = 4, kNodes = 4, kContext = 300;

// Drafts, verifies and accepts sequences as Engine::step does, without reporting to sinks and listeners.
class DecodeLoop {
 public:
  DecodeLoop(const SamplingParams& sampling, AcceptanceRule rule, int n_threads)
      : pool_(n_threads), sampling_(sampling), worker_(embedded_target(Dtype::kBFloat16), 64, 64, 100, pool_) {
    for (std::uint64_t seed : {1, 2})
      live_drafts_.push_back(make_live_draft(tiny_draft(tiny_draft_config(8192), seed)));
    proposals_.resize(kSequences);
    results_.resize(kSequences);
    for (std::int32_t i = 0; i < kSequences; ++i) {
      tokens_.push_back(random_tokens(6 + i, static_cast<unsigned>(i)));
      tokens_.back().reserve(kContext);
      pages_.emplace_back(worker_.cache());
      EXPECT_TRUE(pages_.back().reserve(kContext));
      SequenceRef& ref = refs_.emplace_back();
      ref.id = {static_cast<std::uint64_t>(i)};
      ref.prompt_tokens = 6 + i;
      ref.max_total_tokens = kContext;
      ref.sampling = &sampling_;
      ref.rule = rule;
      ref.live_draft = live_drafts_[static_cast<std::size_t>(i) % 2].get();
      ref.wants_probability = true;
      ref.tokens = tokens_.back();
      n_cached_.push_back(0);
      proposer_.begin(ref);
    }
    draft_tasks_ = draft_tasks(refs_, std::vector<std::int32_t>(kSequences), proposals_);
  }

  void step() {
    propose();
    verify();
    for (std::size_t i = 0; i < kSequences; ++i) accept_one(i);
  }
  std::int32_t n_committed() const { return static_cast<std::int32_t>(tokens_[0].size()); }

 private:
  void propose() {
    for (std::size_t i = 0; i < kSequences; ++i) {
      refs_[i].tokens = tokens_[i];
      proposals_[i].clear();
    }
    proposer_.catch_up(draft_tasks_, {64, 64});
    for (DraftTask& task : draft_tasks_) task.nodes = std::min(kNodes, proposer_.ready_depth(*task.sequence));
    proposer_.propose(draft_tasks_);
  }
  void verify() {
    score_tasks_.clear();
    for (std::size_t i = 0; i < kSequences; ++i) {
      ScoreTask task;
      task.tokens = refs_[i].tokens.subspan(static_cast<std::size_t>(n_cached_[i]));
      task.pages = &pages_[i];
      task.n_cached = n_cached_[i];
      task.proposal = &proposals_[i];
      task.sequence = &refs_[i];
      score_tasks_.push_back(task);
    }
    verifier_.score(score_tasks_);
  }
  void accept_one(std::size_t i) {
    VerifyResult& result = results_[i];
    verifier_.verify(i, result);
    verifier_.keep_path(score_tasks_[i], result.accepted);
    proposer_.on_verified(refs_[i], result);
    n_cached_[i] = static_cast<std::int32_t>(tokens_[i].size() + result.accepted.size());
    for (const std::int32_t node : result.accepted) {
      tokens_[i].push_back(proposals_[i].tokens[static_cast<std::size_t>(node)]);
    }
    tokens_[i].push_back(result.added_token);
  }

  kernels::ThreadPool pool_;
  SamplingParams sampling_;
  LocalWorker worker_;
  LocalVerifier verifier_{worker_};
  DraftModelProposer proposer_{{.n_pages = 200, .max_running = kSequences}, worker_.config(), pool_};
  std::vector<std::shared_ptr<LiveDraft>> live_drafts_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<PageTable> pages_;
  std::vector<std::int32_t> n_cached_;
  std::vector<SequenceRef> refs_;
  std::vector<Proposal> proposals_;
  std::vector<VerifyResult> results_;
  std::vector<DraftTask> draft_tasks_;
  std::vector<ScoreTask> score_tasks_;
};

struct Mode {
  const char* name;
  SamplingParams sampling;
  AcceptanceRule rule;
};

std::vector<Mode> modes() {
  return {{"greedy", {.temperature = 0, .seed = 1}, AcceptanceRule::kCoupled},
          {"coupled", {.temperature = 1, .seed = 2}, AcceptanceRule::kCoupled},
          {"rejection", {.temperature = 1, .seed = 3}, AcceptanceRule::kRejection},
          {"nucleus", {.temperature = 0.9F, .top_p = 0.9F, .top_k = 200, .seed = 4}, AcceptanceRule::kRejection},
          {"processed",
           {.temperature = 0.8F, .min_p = 0.01F, .repetition_penalty = 1.1F, .logit_bias = {{3, 1.0F}}, .seed = 5},
           AcceptanceRule::kCoupled}};
}

class DecodeLoopTest : public ::testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, DecodeLoopTest, ::testing::ValuesIn(modes()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(DecodeLoopTest, AllocatesNothingAndTakesNoLockOnceWarm) {
  for (const int n_threads : {1, 2}) {
    DecodeLoop loop(GetParam().sampling, GetParam().rule, n_threads);
    for (int i = 0; i < 24; ++i) loop.step();
    const std::int32_t before = loop.n_committed();
    const Counts counts = count([&] {
      for (int i = 0; i < 12; ++i) loop.step();
    });
    EXPECT_GE(loop.n_committed(), before + 12);
    EXPECT_EQ(counts.allocations, 0) << n_threads << " threads";
    if (n_threads == 1) {  // of several, one may have gone to sleep, and then waking it takes its lock
      EXPECT_EQ(counts.locks, 0);
    }
  }
}

TEST(DecodeLoopCounts, NegativeOneAllocationAndOneLockAreCaught) {
  std::vector<float> grows;
  std::mutex mutex;
  const Counts counts = count([&] {
    grows.resize(100);
    const std::lock_guard lock(mutex);
  });
  EXPECT_EQ(counts.allocations, 1);
  EXPECT_EQ(counts.locks, SLIP_OWN_LOCKS);
  const Counts aligned =
      count([] { ::operator delete (::operator new (64, std::align_val_t{64}), std::align_val_t{64}); });
  EXPECT_EQ(aligned.allocations, 1);
  // A sort that allocates, as drafting once did.
  std::vector<int> values(100);
  EXPECT_GT(count([&] { std::stable_sort(values.begin(), values.end()); }).allocations, 0);
}

}  // namespace
}  // namespace slip
