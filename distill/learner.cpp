// SPDX-License-Identifier: Apache-2.0
#include "distill/learner.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/owner_calls.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"
#include "distill/idle_priority.h"
#include "distill/learning_loop.h"
#include "distill/learning_switch.h"
#include "distill/record_writer.h"
#include "distill/waiting_record.h"

namespace slip {

namespace {

constexpr std::int64_t kUpkeepEveryUs = 1'000'000;
constexpr std::int64_t kAskAgainUs = 5'000;  // after the governor refused a unit
constexpr std::int64_t kLongestWaitInStepUs = 3'000'000;
constexpr std::int64_t kIdleTickUs = 1'000'000;
constexpr std::int64_t kQuietUs = 1'000'000;  // without a client's request, before further answers are asked for
constexpr int kSampledTogether = 4;           // answers that the engine samples at once

// Takes the answers that the target samples for the learner. Nobody reads them: their tokens come as observations.
class UnreadAnswers final : public TokenSink {
 public:
  void on_tokens(const TokenDelta& /*delta*/) override {}
  void on_finished(const RequestSummary& /*summary*/) override { n_running.fetch_sub(1, std::memory_order_release); }

  std::atomic<int> n_running{0};
};

}  // namespace

struct Learner::State {
  State(LearnerOptions given, const TopicTable& topic_table, std::vector<std::shared_ptr<LiveDraft>> given_live_drafts,
        std::shared_ptr<const DraftVersion> base_draft, DraftStore& draft_store, ReplayBuffer& replay, Governor& policy,
        DecisionSink& sink)
      : options(std::move(given)),
        topics(topic_table),
        live_drafts(std::move(given_live_drafts)),
        base(std::move(base_draft)),
        store(draft_store),
        governor(policy),
        decisions(sink),
        earlier(earlier_records(replay)),
        learning(options.disk),
        writer(
            {options.queue_observations, base->weights->config.vocab_size, options.near_copies}, topics,
            [this](DraftId id) { return name_of(id); }, replay, learning),
        calls([this] { writer.wake(); }) {}

  void run();
  bool begin();
  void learn();
  std::int64_t work_once();
  bool begin_unit(LearningUnit unit);
  void end_unit();
  void take_in();
  void hold_records();
  void ask_for_answers();
  void upkeep_when_due();
  void announce_idle();
  bool in_unit();
  void forget(const PurgeScope& scope);
  void report(std::int64_t now_us);
  std::string name_of(DraftId id) const;

  const LearnerOptions options;
  const TopicTable& topics;
  const std::vector<std::shared_ptr<LiveDraft>> live_drafts;
  const std::shared_ptr<const DraftVersion> base;
  DraftStore& store;
  Governor& governor;
  DecisionSink& decisions;
  const EarlierRecords earlier;  // read before the record writer's thread owns replay

  // Shared with the engine thread, with callers of wait_idle(), purge() and set_enabled().
  LearningSwitch learning;
  RecordWriter writer;
  OwnerCalls calls;
  std::atomic<bool> failing{false};  // training, scoring or saving
  std::atomic<bool> stopping{false};
  std::mutex idle_mutex;
  std::condition_variable idle_changed;
  std::uint64_t idle_through = 0;  // the record writer's events whose records were taken in when last no work was left

  // Used by the learner's thread only.
  std::thread thread;
  std::deque<WaitingRecord> records;  // not yet given to the loop
  std::optional<LearningLoop> loop;
  FailureSpell beginnings;  // attempts to make the loop
  bool has_unit = false;    // the governor granted one, and unit_done() was not called since
  std::uint64_t taken_through = 0, reported = 0;
  std::int64_t last_upkeep_us = 0;
  FailureSpell memory_lacks;  // rounds that ended for lack of memory
  const std::shared_ptr<UnreadAnswers> unread = std::make_shared<UnreadAnswers>();
};

// ---- the loop

void Learner::State::run() {
  name_thread("learner");
  prepare_thread_memory();
  if (options.at_idle_priority) run_behind_serving(options.placement);
  calls.begin();
  try {
    learn();
    if (loop) {
      loop->save();
      report(monotonic_us());
    }
  } catch (const std::exception& error) {
    failing.store(true, std::memory_order_relaxed);
    log_parts(LogLevel::kError, {"learning has ended, serving goes on: ", error.what()});
  }
  calls.end();
}

// Makes the loop. If that fails, by a disk error or for lack of memory, it is tried again, less and less often. False:
// there is no loop.
bool Learner::State::begin() {
  if (beginnings.retry_us > monotonic_us()) return false;
  try {
    loop.emplace(LearningLoopSetting{options, topics, live_drafts, base, store, writer, earlier, governor, decisions,
                                     [this] { return in_unit(); }, [this] { end_unit(); }});
  } catch (const std::exception& error) {
    failing.store(true, std::memory_order_relaxed);
    if (count_failure(beginnings)) {
      log_parts(LogLevel::kError, {"learning cannot begin: ", error.what(), kIsTriedAgain});
    }
    return false;
  }
  if (beginnings.n > 0) log_info("learning has begun, after failures: " + std::to_string(beginnings.n));
  beginnings = {};
  return true;
}

void Learner::State::forget(const PurgeScope& scope) {
  if (!loop) {
    hold_records();  // the loop would take them later
    std::erase_if(records, [&](const WaitingRecord& waiting) { return is_in(scope, waiting.record); });
    return;
  }
  take_in();  // what was purged from replay may have come from there before
  loop->forget(scope);
}

// Takes the records while there is no loop: as long as any is in the inbox, wait_for() returns at once.
void Learner::State::hold_records() {
  taken_through = writer.take_all_within_capacity(records);
}

void Learner::State::learn() {
  while (!stopping.load(std::memory_order_acquire)) {
    try {
      calls.serve();
      if (const std::int64_t left_us = memory_lacks.retry_us - monotonic_us(); left_us > 0) {
        writer.pause_for(left_us);
        continue;
      }
      if (!loop && !begin()) {
        hold_records();
        writer.wait_for(kIdleTickUs);
        continue;
      }
      take_in();
      upkeep_when_due();
      if (const std::int64_t wait_us = work_once(); wait_us > 0) writer.wait_for(wait_us);
      memory_lacks = {};
    } catch (const std::bad_alloc&) {
      end_unit();
      failing.store(true, std::memory_order_relaxed);
      if (count_failure(memory_lacks)) {
        log_parts(LogLevel::kError, {"learning: there is no memory for it", kIsTriedAgain});
      }
    }
  }
  end_unit();
}

// Does one unit, if there is one and the governor grants it. Returns for how long to wait before the next try.
std::int64_t Learner::State::work_once() {
  const auto unit = learning.wanted() ? loop->next_unit(/*may_train=*/learning.on()) : std::nullopt;
  if (!unit) {
    end_unit();
    if (learning.on()) ask_for_answers();
    if (!loop->holds_records()) announce_idle();
    return kIdleTickUs;
  }
  if (!begin_unit(*unit)) return kAskAgainUs;
  loop->run(*unit);
  failing.store(loop->failing(), std::memory_order_relaxed);
  return 0;
}

// Ends the last unit only if this one is not granted: without cores, this thread may get no time for asking. The loop
// also ends it before it writes files.
bool Learner::State::begin_unit(LearningUnit unit) {
  if (!governor.allow_unit(unit)) {
    end_unit();
    return false;
  }
  has_unit = true;
  return true;
}

void Learner::State::end_unit() {
  if (std::exchange(has_unit, false)) governor.unit_done();
}

void Learner::State::announce_idle() {
  const std::lock_guard lock(idle_mutex);
  idle_through = taken_through;
  idle_changed.notify_all();
}

void Learner::State::take_in() {
  taken_through = writer.take_all(records);
  while (!records.empty()) {
    WaitingRecord record = std::move(records.front());  // removed first, so that a bad_alloc does not meet it again
    records.pop_front();
    loop->take(std::move(record));
  }
}

// In rounds: between two of them, training takes the idle time.
void Learner::State::ask_for_answers() {
  if (!options.answer_again || unread->n_running.load(std::memory_order_acquire) > 0) return;
  if (governor.idle_us() < kQuietUs) return;
  for (int i = 0; i < kSampledTogether; ++i) {
    auto request = loop->next_sample();
    if (!request) return;
    request->sink = unread;
    unread->n_running.fetch_add(1, std::memory_order_relaxed);
    try {
      options.answer_again(std::move(*request));
    } catch (const std::exception&) {  // the engine shuts down, or cannot take so long a prompt
      unread->n_running.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

void Learner::State::report(std::int64_t now_us) {
  LearningFigures figures = loop->figures(now_us);
  figures.queue_bytes += writer.near_copies_bytes();
  figures.records_untaken = writer.untaken();
  decisions.on_learning(figures);
}

void Learner::State::upkeep_when_due() {
  const std::int64_t now = monotonic_us();
  if (now - last_upkeep_us < kUpkeepEveryUs) return;
  last_upkeep_us = now;
  loop->reclaim();
  loop->save_due(now);
  failing.store(loop->failing(), std::memory_order_relaxed);
  report(now);
  const std::uint64_t dropped = writer.dropped();
  if (dropped > reported) decisions.on_dropped(dropped - reported);
  reported = dropped;
}

// Called between two parts of an optimizer step, and before and within an export. Waits until the governor grants the
// next part, and takes in records meanwhile. Abandons the step or the export after a long wait, so that records do not
// wait for their scores behind it.
bool Learner::State::in_unit() {
  const std::int64_t began = monotonic_us();
  while (!stopping.load(std::memory_order_acquire)) {
    calls.serve();
    take_in();
    upkeep_when_due();
    if (learning.on() && begin_unit(LearningUnit::kTrainingRest)) return true;
    end_unit();
    if (monotonic_us() - began > kLongestWaitInStepUs) return false;
    writer.wait_for(kAskAgainUs);
  }
  return false;
}

std::string Learner::State::name_of(DraftId id) const {
  for (const auto& live_draft : live_drafts) {
    if (live_draft && live_draft->id() == id) return live_draft->name();
  }
  return base->name;
}

// ---- the public interface

Learner::Learner(LearnerOptions options, const TopicTable& topics, std::vector<std::shared_ptr<LiveDraft>> live_drafts,
                 std::shared_ptr<const DraftVersion> base, DraftStore& store, ReplayBuffer& replay, Governor& governor,
                 DecisionSink& decisions)
    : state_(std::make_unique<State>(std::move(options), topics, std::move(live_drafts), std::move(base), store, replay,
                                     governor, decisions)) {}

Learner::~Learner() {
  stop();
}

ObservationSink& Learner::observations() {
  return state_->writer;
}

void Learner::start() {
  if (state_->thread.joinable()) return;
  state_->writer.start();
  state_->thread = std::thread([this] { state_->run(); });
}

void Learner::stop() {
  state_->stopping.store(true, std::memory_order_release);
  state_->writer.wake();
  if (state_->thread.joinable()) state_->thread.join();
  state_->writer.stop();
}

bool Learner::wait_idle(std::int64_t timeout_us) {
  State& state = *state_;
  const std::uint64_t so_far = state.writer.pushed();
  state.writer.hurry();
  state.writer.wake();
  std::unique_lock lock(state.idle_mutex);
  return state.idle_changed.wait_for(lock, std::chrono::microseconds(timeout_us),
                                     [&] { return state.idle_through >= so_far; });
}

void Learner::set_enabled(bool enabled) {
  state_->learning.set_wanted(enabled);
  state_->writer.wake();
}

std::size_t Learner::purge(const PurgeScope& scope) {
  State& state = *state_;
  const auto forget = [&] { state.calls.call([&] { state.forget(scope); }); };
  forget();  // from now on the learner asks for no answer to a prompt of the scope
  std::size_t n = 0;
  try {
    n = state.writer.purge(scope);
  } catch (const std::exception&) {
    forget();
    throw;
  }
  forget();
  return n;
}

bool Learner::replay_refused() const {
  return state_->writer.refused();
}

bool Learner::failing() const {
  return state_->failing.load(std::memory_order_relaxed) || state_->writer.upkeep_fails();
}

std::uint64_t Learner::replay_records() const {
  return state_->writer.replay_records();
}

std::uint64_t Learner::dropped() const {
  return state_->writer.dropped();
}

}  // namespace slip
