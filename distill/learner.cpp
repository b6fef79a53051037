// SPDX-License-Identifier: Apache-2.0
#include "distill/learner.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/patient_clock.h"
#include "common/thread_memory.h"
#include "distill/idle_priority.h"
#include "distill/learning_loop.h"
#include "distill/learning_switch.h"
#include "distill/lossy_inbox.h"
#include "distill/replay/record_assembler.h"

namespace slip {

namespace {

constexpr std::int64_t kSyncEveryUs = 1'000'000;  // "at most the last second short"
constexpr std::int64_t kExpireEveryUs = 600'000'000;
constexpr std::int64_t kAskAgainUs = 5'000;  // after the governor refused a unit
constexpr std::int64_t kLongestWaitInStepUs = 3'000'000;
constexpr std::int64_t kIdleTickUs = 1'000'000;
constexpr std::int64_t kClockPatienceUs = std::int64_t{3600} * 1'000'000;  // before a clock jump ahead expires records

struct Finish {
  RequestId request;
  bool completed = false;
  std::int64_t at_us = 0;  // wall clock: a purge by time finds the record by it, however late it is taken in
};
using Event = std::variant<ObservedRequest, Observation, Finish>;

}  // namespace

struct Learner::State {
  State(LearnerOptions given, const TopicTable& topic_table, std::vector<std::shared_ptr<LiveDraft>> given_live_drafts,
        std::shared_ptr<const DraftVersion> base_draft, DraftStore& draft_store, ReplayBuffer& buffer, Governor& policy,
        DecisionSink& sink)
      : options(std::move(given)),
        topics(topic_table),
        live_drafts(std::move(given_live_drafts)),
        base(std::move(base_draft)),
        store(draft_store),
        replay(buffer),
        governor(policy),
        decisions(sink),
        learning(options.disk),
        inbox(options.queue_observations),
        assembler(topics, [this](DraftId id) { return name_of(id); }) {}

  void run();
  void learn();
  bool work_once();
  bool begin_unit(LearningUnit unit);
  void end_unit();
  void take_in();
  void keep_house();
  void keep_replay(std::int64_t now_us);
  void pause();
  void announce_idle();
  bool in_unit();
  void run_purges();
  std::size_t purge(const PurgeScope& scope);
  void take(ReplayRecord record);
  bool append(ReplayRecord& record);
  void report(std::int64_t now_us);
  std::string name_of(DraftId id) const;

  const LearnerOptions options;
  const TopicTable& topics;
  const std::vector<std::shared_ptr<LiveDraft>> live_drafts;
  const std::shared_ptr<const DraftVersion> base;
  DraftStore& store;
  ReplayBuffer& replay;
  Governor& governor;
  DecisionSink& decisions;

  // Shared with the engine thread, with callers of wait_idle() and of set_enabled().
  LearningSwitch learning;
  std::atomic<bool> refused{false};  // the last append to replay failed
  std::atomic<bool> failing{false};  // training, scoring, saving or the replay buffer's upkeep
  LossyInbox<Event> inbox;
  std::atomic<std::uint64_t> lost{0};     // events dropped by the inbox
  std::atomic<std::uint64_t> wasted{0};   // observations taken in that became part of no record
  std::atomic<std::uint64_t> records{0};  // in the replay buffer
  std::atomic<bool> stopping{false};
  std::mutex idle_mutex;
  std::condition_variable idle_changed;
  std::uint64_t idle_through = 0;  // events taken in or lost when last no work was left
  std::mutex purge_mutex;          // guards the next two; held only briefly while the thread runs
  bool running = false;            // true: the thread does purges; false: the caller does
  std::vector<std::packaged_task<std::size_t()>> purges;

  // Used by the learner's thread only.
  std::thread thread;
  RecordAssembler assembler;
  std::deque<Event> events;
  std::optional<LearningLoop> loop;
  PatientClock calendar{kClockPatienceUs};
  bool waits_for_leave = false;  // the governor refused the unit that is to be done next
  bool has_unit = false;         // the governor granted one, and unit_done() was not called since
  std::uint64_t taken = 0, reported = 0;
  std::int64_t synced_us = 0, expired_us = 0, complained_us = 0;
  bool upkeep_fails = false;
  bool out_of_memory = false;  // in the last round
  bool complained = false;     // a loss of records was logged, the recovery not yet
};

// ---- the loop

void Learner::State::run() {
  prepare_thread_memory();
  if (options.at_idle_priority) run_behind_serving(options.placement);
  try {
    loop.emplace(LearningLoopSetting{options, topics, live_drafts, base, store, replay, governor, decisions,
                                     [this] { return in_unit(); }});
    learn();
    loop->save();
    report(monotonic_us());
    replay.sync();
  } catch (const std::exception& error) {
    failing.store(true, std::memory_order_relaxed);
    log_parts(LogLevel::kError, {"learning has ended, serving goes on: ", error.what()});
  }
  const std::lock_guard lock(purge_mutex);
  running = false;
  for (auto& late : purges) late();
  purges.clear();
}

// Takes in all requests that finished before a purge was requested, then does the purges.
void Learner::State::run_purges() {
  std::vector<std::packaged_task<std::size_t()>> due;
  {
    const std::lock_guard lock(purge_mutex);
    due.swap(purges);
  }
  if (!due.empty()) take_in();
  for (auto& one : due) one();
}

std::size_t Learner::State::purge(const PurgeScope& scope) {
  assembler.forget(scope);
  if (loop) loop->forget(scope);
  return replay.purge(scope);
}

void Learner::State::learn() {
  while (!stopping.load(std::memory_order_acquire)) {
    try {
      run_purges();
      take_in();
      keep_house();
      if (!work_once()) pause();
      out_of_memory = false;
    } catch (const std::bad_alloc&) {
      end_unit();
      failing.store(true, std::memory_order_relaxed);
      if (!std::exchange(out_of_memory, true)) log_error("learning: there is no memory for it; it is tried again");
      inbox.wait_for(kIdleTickUs);
    }
  }
  end_unit();
  take_in();  // keeps the records of finished requests
}

bool Learner::State::work_once() {
  waits_for_leave = false;
  const auto unit = learning.wanted() ? loop->next_unit(/*may_train=*/learning.on()) : std::nullopt;
  if (!unit) {
    end_unit();
    if (!loop->holds_records()) announce_idle();
    return false;
  }
  waits_for_leave = !begin_unit(*unit);
  if (waits_for_leave) return false;
  loop->run(*unit);
  failing.store(loop->failing() || upkeep_fails, std::memory_order_relaxed);
  return true;
}

// Ends the last unit only if this one is not granted: without cores, this thread may get no time for asking.
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

void Learner::State::pause() {
  inbox.wait_for(waits_for_leave ? kAskAgainUs : kIdleTickUs);
}

void Learner::State::announce_idle() {
  const std::lock_guard lock(idle_mutex);
  idle_through = taken + lost.load(std::memory_order_acquire);
  idle_changed.notify_all();
}

void Learner::State::take_in() {
  taken += inbox.take_all(events);
  while (!events.empty()) {
    Event event = std::move(events.front());  // removed first, so that a bad_alloc does not meet it again
    events.pop_front();
    if (auto* begun = std::get_if<ObservedRequest>(&event)) assembler.begin(std::move(*begun));
    if (const auto* seen = std::get_if<Observation>(&event)) assembler.record(*seen);
    const auto* finished = std::get_if<Finish>(&event);
    if (finished == nullptr) continue;
    auto record = assembler.finish(finished->request, finished->completed);
    if (!record) continue;
    record->created_us = finished->at_us;
    take(std::move(*record));
  }
  wasted.fetch_add(assembler.take_lost(), std::memory_order_relaxed);
}

// Records are scored even while the disk is low, so that the live version stays under watch.
void Learner::State::take(ReplayRecord record) {
  if (!learning.wanted() || !loop->fits(record)) return;
  const bool is_evidence = loop->classify(record);
  if (!append(record)) record.sequence = replay.last_sequence() + 1;
  loop->take(std::move(record), is_evidence);
}

bool Learner::State::append(ReplayRecord& record) {
  const auto lose = [&] { wasted.fetch_add(record.target.size(), std::memory_order_relaxed); };
  if (!learning.on()) {
    lose();
    return false;
  }
  try {
    record.sequence = replay.append(record);
    refused.store(false, std::memory_order_relaxed);
    if (std::exchange(complained, false)) log_info("learning: records are kept again");
    return true;
  } catch (const std::exception& error) {  // std::bad_alloc too
    lose();
    refused.store(true, std::memory_order_relaxed);
    const std::int64_t now = monotonic_us();
    if (!complained || now - complained_us > kExpireEveryUs) {
      log_parts(LogLevel::kWarn, {"learning: records are lost: ", error.what()});
      complained_us = now;
      complained = true;
    }
    return false;
  }
}

void Learner::State::report(std::int64_t now_us) {
  decisions.on_learning(loop->figures(now_us));
}

void Learner::State::keep_replay(std::int64_t now_us) {
  try {
    replay.sync();
    if (now_us - expired_us >= kExpireEveryUs) {
      expired_us = now_us;
      replay.expire(calendar.believe(wall_us(), now_us));
    }
    if (std::exchange(upkeep_fails, false)) log_info("learning: the replay buffer can be written again");
  } catch (const std::exception& error) {
    if (!std::exchange(upkeep_fails, true)) log_parts(LogLevel::kWarn, {"learning: ", error.what()});
  }
}

void Learner::State::keep_house() {
  const std::int64_t now = monotonic_us();
  if (now - synced_us < kSyncEveryUs) return;
  synced_us = now;
  keep_replay(now);
  records.store(replay.stats().records, std::memory_order_relaxed);
  loop->reclaim();
  loop->save_due(now);
  failing.store(loop->failing() || upkeep_fails, std::memory_order_relaxed);
  report(now);
  const std::uint64_t all = lost.load(std::memory_order_acquire) + wasted.load(std::memory_order_relaxed);
  if (all > reported) decisions.on_dropped(all - reported);
  reported = all;
}

// Called between two microbatches. Waits until the governor grants the next one, and takes in observations meanwhile.
// Abandons the step after a long wait, so that records do not wait for their scores behind it.
bool Learner::State::in_unit() {
  const std::int64_t began = monotonic_us();
  while (!stopping.load(std::memory_order_acquire)) {
    run_purges();
    take_in();
    keep_house();
    if (learning.on() && begin_unit(LearningUnit::kTrainingRest)) return true;
    end_unit();
    if (monotonic_us() - began > kLongestWaitInStepUs) return false;
    inbox.wait_for(kAskAgainUs);
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

void Learner::begin(ObservedRequest request) noexcept {
  state_->lost.fetch_add(state_->inbox.push(Event(std::move(request))), std::memory_order_acq_rel);
}

void Learner::record(Observation observation) noexcept {
  // Only finished records are used, and waking the learner at every step would slow every step down.
  const std::size_t lost = state_->inbox.push(Event(std::move(observation)), /*wakes=*/false);
  state_->lost.fetch_add(lost, std::memory_order_acq_rel);
}

void Learner::finish(RequestId request, bool completed) noexcept {
  state_->lost.fetch_add(state_->inbox.push(Event(Finish{request, completed, wall_us()})), std::memory_order_acq_rel);
}

void Learner::start() {
  if (state_->thread.joinable()) return;
  state_->running = true;
  state_->thread = std::thread([this] { state_->run(); });
}

void Learner::stop() {
  state_->stopping.store(true, std::memory_order_release);
  state_->inbox.wake();
  if (state_->thread.joinable()) state_->thread.join();
}

bool Learner::wait_idle(std::int64_t timeout_us) {
  State& state = *state_;
  const std::uint64_t so_far = state.inbox.pushed();
  state.inbox.wake();
  std::unique_lock lock(state.idle_mutex);
  return state.idle_changed.wait_for(lock, std::chrono::microseconds(timeout_us),
                                     [&] { return state.idle_through >= so_far; });
}

void Learner::set_enabled(bool enabled) {
  state_->learning.set_wanted(enabled);
  state_->inbox.wake();
}

std::size_t Learner::purge(const PurgeScope& scope) {
  State& state = *state_;
  std::packaged_task<std::size_t()> task([&state, &scope] { return state.purge(scope); });
  auto done = task.get_future();
  {
    const std::lock_guard lock(state.purge_mutex);
    if (state.running) {
      state.purges.push_back(std::move(task));
    } else {
      task();  // no thread runs, so the caller owns the buffer
    }
  }
  state.inbox.wake();
  return done.get();
}

bool Learner::replay_refused() const {
  return state_->refused.load(std::memory_order_relaxed);
}

bool Learner::failing() const {
  return state_->failing.load(std::memory_order_relaxed);
}

std::uint64_t Learner::replay_records() const {
  return state_->records.load(std::memory_order_relaxed);
}

std::uint64_t Learner::dropped() const {
  return state_->lost.load(std::memory_order_acquire) + state_->wasted.load(std::memory_order_relaxed);
}

}  // namespace slip
