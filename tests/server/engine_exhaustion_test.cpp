// SPDX-License-Identifier: Apache-2.0
// A service at its address-space limit ended by std::bad_alloc on the engine's thread, in a line of the log about a
// step that had failed. Here each allocation that the engine makes fails in turn: every request ends once, either
// rightly or with kUnavailable, all pages come back, and the next request is answered bit for bit. In this folder since
// it needs this program's operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "engine/engine.h"
#include "engine/grammar/schema_compiler.h"
#include "engine/kv_cache/prefix_cache.h"
#include "server/http/key_quotas.h"
#include "tests/engine/engine_answers.h"
#include "tests/engine/kv_cache/cache_shape.h"
#include "tests/engine/tiny_draft.h"
#include "tests/failing_allocations.h"
#include "tests/text/tiny_tokenizer.h"

namespace slip {
namespace {

using testing::Answer;
using testing::may_fail;
using testing::Spared;
using testing::until_failure;

constexpr std::int32_t kVocab = 263;
constexpr std::int32_t kPages = 24;
constexpr int kStride = 3;  // of some 900 allocations: all of them take 5 s

// What tests keep of an answer is not the engine's memory.
class SparedSink final : public TokenSink {
 public:
  explicit SparedSink(Answer& answer) : sink_(answer) {}
  void on_tokens(const TokenDelta& delta) override {
    const Spared own;
    sink_.on_tokens(delta);
  }
  void on_finished(const RequestSummary& summary) override {
    const Spared own;
    sink_.on_finished(summary);
  }

 private:
  testing::CollectingSink sink_;
};

struct SparedObservations final : ObservationSink {
  testing::RecordingObservations kept;
  void begin(ObservedRequest request) noexcept override {
    const Spared own;
    kept.begin(std::move(request));
  }
  void record(Observation observation) noexcept override {
    const Spared own;
    kept.record(std::move(observation));
  }
  void finish(RequestId request, bool completed) noexcept override {
    const Spared own;
    kept.finish(request, completed);
  }
};

bool is_prefix(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& whole) {
  return tokens.size() <= whole.size() && std::equal(tokens.begin(), tokens.end(), whole.begin());
}

class EngineExhaustion : public ::testing::Test {
 protected:
  enum Which : std::size_t { kLogprobs, kStreamed, kInAForm, kWaiting, kCancelledWaiting, kCancelledRunning, kAll };
  using Answers = std::array<Answer, kAll>;

  EngineExhaustion() { set_log_level(LogLevel::kOff); }
  ~EngineExhaustion() override { set_log_level(LogLevel::kInfo); }

  // Target and draft are one model, so that drafted tokens are accepted.
  void make_engine(std::int32_t max_running) {
    EngineOptions options{.k = 3, .max_running = max_running, .prefill_chunk = 40, .prefix_cache = 0.5};
    options.adaptive_k = options.stop_early = options.prompt_lookup = options.deadlines = true;
    options.tree_width = 2;
    options.draft_pages = kPages;
    live_draft_ = testing::make_live_draft(weights());
    auto worker = std::make_unique<LocalWorker>(weights(), 64, 32, kPages, pool_);
    engine_ = std::make_unique<Engine>(options, std::move(worker), tokenizer(), pool_, &observations_,
                                       std::vector<StepListener*>{&quotas_});
  }

  static std::shared_ptr<const ModelWeights> weights() {
    static const auto made = testing::tiny_draft(testing::tiny_draft_config(kVocab), 7);
    return made;
  }
  static const std::shared_ptr<const Tokenizer>& tokenizer() {
    static const auto loaded = testing::tiny_tokenizer();
    return loaded;
  }

  Request request(Which which, Answer& answer) {
    Request request;
    request.id = {++last_id_};
    request.name = "a name that is too long for a string's own buffer";
    for (std::int32_t i = 0; i < 70; ++i)
      request.prompt.push_back((i * 7 + (i < 40 ? 0 : static_cast<int>(which))) % 250);
    request.max_tokens = 24;
    request.sampling.temperature = 0.8F;
    request.sampling.seed = 40 + which;
    request.draft = live_draft_;
    request.checksum = true;
    request.slo.tpot_us = 1'000;
    if (which == kLogprobs) {
      request.top_logprobs = 2;
      request.sampling.presence_penalty = 0.5F;
    }
    if (which == kStreamed) request.stop_strings = {"a string that nothing says", "nor this one"};
    if (which == kInAForm) {
      request.sampling.grammar = grammar();
      request.end_ids = {260};
    }
    request.sink = std::make_shared<SparedSink>(answer);
    return request;
  }
  static std::shared_ptr<const Grammar> grammar() {
    static const auto compiled = compile_schema(
        SchemaJson::parse(R"({"type":"array","items":{"enum":["ab","aaaa",17]},"minItems":3})"), "a test");
    return compiled;
  }

  // Only the engine's own allocations may fail.
  bool step() {
    may_fail = true;
    const bool more = engine_->step();
    may_fail = false;
    return more;
  }

  Answers play(bool cancels) {
    Answers answers;
    std::array<RequestId, kAll> ids;
    for (const Which which : {kLogprobs, kStreamed, kCancelledRunning, kInAForm, kCancelledWaiting, kWaiting}) {
      Request asked = request(which, answers[which]);
      ids[which] = asked.id;
      engine_->submit(std::move(asked));
    }
    if (cancels) engine_->cancel(ids[kCancelledWaiting]);
    for (int at = 0; step(); ++at) {
      if (cancels && at == kCancelAt) engine_->cancel(ids[kCancelledRunning]);
      if (at == kSwapAt) live_draft_->set(testing::draft_version(weights(), live_draft_->get()->number + 1));
    }
    live_draft_->reclaim();
    return answers;
  }

  void check(const Answers& answers, const Answers& right, int n) {
    int failed = 0;
    for (std::size_t i = 0; i < kAll; ++i) {
      const Answer& answer = answers[i];
      ASSERT_EQ(answer.n_finished, 1) << "n = " << n << ", request " << i;
      ASSERT_TRUE(is_prefix(answer.tokens, right[i].tokens)) << "n = " << n << ", request " << i;
      if (answer.summary.reason == StopReason::kFailed) {
        ++failed;
        ASSERT_TRUE(answer.summary.error);
        ASSERT_EQ(answer.summary.error->code(), ErrorCode::kUnavailable) << answer.summary.error->message();
        ASSERT_EQ(answer.summary.error->message(), "the server has no memory for this request");
      } else if (i == kCancelledWaiting || i == kCancelledRunning) {
        ASSERT_EQ(answer.summary.reason, StopReason::kCancelled) << "n = " << n;
      } else {
        ASSERT_TRUE(answer.same_as(right[i])) << "n = " << n << ", request " << i;
      }
      ASSERT_EQ(answer.summary.name, "a name that is too long for a string's own buffer");
    }
    n_failed_ += failed;
    n_untouched_ += failed == 0 ? 1 : 0;
    ASSERT_EQ(engine_->n_running(), 0);
    ASSERT_EQ(engine_->n_waiting(), 0);
    ASSERT_EQ(engine_->n_free_pages(), kPages) << "n = " << n;
    check_observations(n);
  }

  // An answer that is learned from is whole, or nothing of it is kept.
  void check_observations(int n) {
    for (const auto& [id, completed] : observations_.kept.finished) {
      if (!completed) continue;
      std::int32_t at = 70;
      for (const Observation& one : observations_.kept.recorded[id]) {
        ASSERT_EQ(one.base_position, at) << "n = " << n;
        at += static_cast<std::int32_t>(one.committed.size());
      }
    }
    for (const auto& [id, begun] : observations_.kept.begun) ASSERT_TRUE(observations_.kept.finished.contains(id));
    observations_.kept = {};
  }

  // The engine still answers rightly, and still speculates. Measured times decide each length, and a busy machine can
  // make them zero for a whole answer, so up to 32 answers may show it.
  void check_next(const Answer& right, int n) {
    bool accepted = false;
    for (int tries = 0; !accepted && tries < 32; ++tries) {
      Answer next;
      Request asked = request(kLogprobs, next);
      asked.prediction = right.tokens;  // so that something is proposed whether the draft pays or not
      engine_->submit(std::move(asked));
      ASSERT_TRUE(testing::drain(*engine_));
      ASSERT_TRUE(next.same_as(right)) << "n = " << n;
      accepted = next.summary.figures.accepted > 0;
      observations_.kept = {};
    }
    ASSERT_TRUE(accepted) << "n = " << n;
  }

  // Fails the n-th allocation of the engine for each n of a stride; `renew`: a new engine for each, so that what is
  // made at the first request and kept is made each time.
  void fail_in_turn(int stride, bool renew) {
    make_engine(3);
    const Answers right = play(/*cancels=*/false);
    for (const Answer& answer : right) ASSERT_GT(answer.tokens.size(), 8U);
    for (int n = 1;; n += stride) {
      if (renew) make_engine(3);
      until_failure = n;
      const Answers answers = play(/*cancels=*/true);
      const bool failed = until_failure.exchange(0) <= 0;
      check(answers, right, n);
      if (HasFatalFailure()) return;
      check_next(right[kLogprobs], n);
      if (HasFatalFailure()) return;
      if (!failed) break;
      RecordProperty("allocations", n);
    }
    EXPECT_GT(n_failed_, 50);
    EXPECT_GT(n_untouched_, 10);
  }

  static constexpr int kSwapAt = 3, kCancelAt = 5;  // steps

  kernels::ThreadPool pool_{1};
  std::shared_ptr<LiveDraft> live_draft_;
  SparedObservations observations_;
  KeyQuotas quotas_{ApiKeys()};
  std::unique_ptr<Engine> engine_;
  std::uint64_t last_id_ = 0;
  int n_failed_ = 0, n_untouched_ = 0;  // requests; turns in which none failed
  const Spared own_;
};

TEST_F(EngineExhaustion, EachAllocationOfANewEngine) {
  fail_in_turn(kStride, /*renew=*/true);
}

TEST_F(EngineExhaustion, EachAllocationOfAnEngineThatHasRun) {
  fail_in_turn(kStride, /*renew=*/false);
}

// A request that cannot be handed over leaves nothing behind: its id is free, and the next one is served.
TEST_F(EngineExhaustion, ASubmissionThatFailsIsForgotten) {
  make_engine(2);
  Answer answer;
  for (int n = 1;; ++n) {
    answer = {};
    Request asked = request(kStreamed, answer);
    asked.id = {1};
    until_failure = n;
    may_fail = true;
    bool taken = true;
    try {
      engine_->submit(std::move(asked));
    } catch (const std::bad_alloc&) {
      taken = false;
    }
    may_fail = false;
    const bool failed = until_failure.exchange(0) <= 0;
    EXPECT_NE(taken, failed);
    ASSERT_TRUE(testing::drain(*engine_));
    EXPECT_EQ(answer.n_finished, taken ? 1 : 0);
    if (!failed) break;
  }
}

// Bug: a new page stood behind its parent in the order of use until the last page was added. When memory ran out before
// that, a check ended the process once room had to be made.
TEST(PrefixCacheExhaustion, APartOfAPromptThatWasAddedCanBeDropped) {
  constexpr std::int32_t kNodes = 4, kAllPages = 8;
  std::vector<std::int32_t> tokens(std::size_t{kNodes} * PagePool::kPageTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  bool added = false;
  int n = 1, n_partial = 0;
  for (; !added; ++n) {
    PagePool pool(cache_shape(), Dtype::kFloat32, kAllPages);
    PrefixCache cache(pool, kAllPages);
    {
      PageTable table(pool);
      ASSERT_TRUE(table.reserve(kNodes * PagePool::kPageTokens));
      const bool before = std::exchange(may_fail, true);
      until_failure = n;
      try {
        cache.add({}, tokens, table);
        added = true;
      } catch (const std::bad_alloc&) {
      }
      until_failure = 0;
      may_fail = before;
    }
    n_partial += cache.n_pages() > 1 && !added ? 1 : 0;
    PageTable all(pool);
    ASSERT_TRUE(cache.reserve(all, kAllPages * PagePool::kPageTokens)) << "n = " << n;
    ASSERT_EQ(cache.n_pages(), 0) << "n = " << n;
  }
  EXPECT_GT(n_partial, kNodes) << "several allocations a page";
}

}  // namespace
}  // namespace slip
