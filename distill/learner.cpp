// SPDX-License-Identifier: Apache-2.0
#include "distill/learner.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/patient_clock.h"
#include "distill/course.h"
#include "distill/draft_scorer.h"
#include "distill/examiner.h"
#include "distill/idle_priority.h"
#include "distill/learning_switch.h"
#include "distill/lossy_inbox.h"
#include "distill/publisher.h"
#include "distill/record_assembler.h"
#include "distill/trainer_seat.h"

namespace slip {

namespace {

constexpr std::int64_t kSyncEveryUs = 1'000'000;  // "at most the last second short"
constexpr std::int64_t kExpireEveryUs = 600'000'000;
constexpr std::int64_t kAskAgainUs = 20'000;  // when the governor said no
constexpr std::int64_t kIdleTickUs = 1'000'000;
constexpr std::size_t kMaxUnscored = 512;    // finished records in memory while the governor says no
constexpr std::size_t kHeldoutRecords = 32;  // a fresh candidate is scored on
constexpr double kLossMemory = 0.8;          // of the smoothed training loss
constexpr std::int64_t kClockPatienceUs = std::int64_t{3600} * 1'000'000;  // before a step ahead expires records

struct Finish {
  RequestId request;
  bool completed = false;
};
using Event = std::variant<ObservedRequest, Observation, Finish>;

}  // namespace

struct Learner::State {
  State(LearnerOptions given, const TopicTable& topic_table, std::vector<std::shared_ptr<DraftSlot>> given_slots,
        std::shared_ptr<const DraftVersion> base_draft, DraftStore& draft_store, ReplayBuffer& buffer, Governor& policy,
        DecisionSink& sink)
      : options(std::move(given)),
        topics(topic_table),
        slots(std::move(given_slots)),
        base(std::move(base_draft)),
        store(draft_store),
        replay(buffer),
        governor(policy),
        decisions(sink),
        learning(options.disk),
        inbox(options.queue_observations),
        assembler(topics, [this](DraftId id) { return name_of(id); }) {}

  // The loop
  void run();
  void learn();
  bool has_work();
  bool work_once();
  void take_in();
  void keep_house();
  void pause();
  void announce_idle();
  bool in_unit();

  // Its units of work
  bool score_next();
  bool score_heldout();
  bool train_step();
  Course* next_course();
  void enrol();
  void export_when_due(Course& course, DraftTrainer& trainer);
  void contain(Course& course, const char* doing, const std::exception& error);
  bool fits_draft(const ReplayRecord& record) const;
  void append(ReplayRecord record);
  Course* course_of(const std::string& topic);
  std::string name_of(DraftId id) const;

  const LearnerOptions options;
  const TopicTable& topics;
  const std::vector<std::shared_ptr<DraftSlot>> slots;
  const std::shared_ptr<const DraftVersion> base;
  DraftStore& store;
  ReplayBuffer& replay;
  Governor& governor;
  DecisionSink& decisions;

  // Shared with the engine thread, with callers of wait_idle() and of set_enabled().
  LearningSwitch learning;
  std::atomic<bool> refused{false};  // by the disk, at the last append
  LossyInbox<Event> inbox;
  std::atomic<std::uint64_t> lost{0};     // events that found no room
  std::atomic<std::uint64_t> wasted{0};   // observations taken in that came to no record
  std::atomic<std::uint64_t> records{0};  // in the replay buffer
  std::atomic<bool> stopping{false};
  std::mutex idle_mutex;
  std::condition_variable idle_changed;
  std::uint64_t idle_through = 0;  // events taken in when nothing was left to do

  // The trainer thread's own.
  std::thread thread;
  RecordAssembler assembler;
  std::deque<Event> events;
  std::deque<ReplayRecord> unscored;
  std::vector<Course> courses;
  std::optional<TrainerSeat> seat;
  std::optional<Publisher> publisher;
  std::optional<kernels::ThreadPool> pool;
  std::optional<DraftScorer> scorer;
  std::optional<Examiner> examiner;
  PatientClock calendar{kClockPatienceUs};
  std::uint64_t taken = 0, reported = 0, draws = 0;
  std::int64_t synced_us = 0, expired_us = 0, complained_us = 0;
};

// ---- the loop

void Learner::State::run() {
  if (options.at_idle_priority) sink_to_idle_priority();
  try {
    enrol();
    learn();
    seat->save();
    replay.sync();
  } catch (const std::exception& error) {
    log_error(std::string("learning has ended, serving goes on: ") + error.what());
  }
  for (Course& course : courses) Publisher::drop_candidate(course);
}

// Here and not in the constructor, so that pools and buffers belong to the idle thread.
void Learner::State::enrol() {
  seat.emplace(options.trainer, options.optimizer_folder);
  publisher.emplace(PublisherOptions{options.serve_dtype, options.canary.min_requests}, base, store, *seat, decisions);
  pool.emplace(std::max(1, options.cores));
  const ModelConfig& shape = base->weights->config;
  scorer.emplace(shape, shape.max_positions, *pool);
  examiner.emplace(options.canary, options.k, base, *scorer, *publisher, decisions);
  for (std::size_t i = 0; i < slots.size() && i < topics.size(); ++i) {
    if (!slots[i] || !slots[i]->get()) continue;
    Course course;
    course.topic = topics[TopicId{static_cast<std::uint32_t>(i)}].name;
    course.slot = slots[i];
    publisher->enrol(course);
    courses.push_back(std::move(course));
  }
}

void Learner::State::learn() {
  while (!stopping.load(std::memory_order_acquire)) {
    take_in();
    keep_house();
    if (!work_once()) pause();
  }
  take_in();  // what is finished is worth keeping
}

bool Learner::State::has_work() {
  const auto waits = [](const Course& course) { return course.candidate && !course.candidate->heldout_left.empty(); };
  return !unscored.empty() || std::any_of(courses.begin(), courses.end(), waits) || next_course() != nullptr;
}

// One unit, most useful first: a record is scored before anything is trained on it.
bool Learner::State::work_once() {
  if (!learning.on() || !has_work()) {
    announce_idle();
    return false;
  }
  if (!governor.allow_unit()) return false;
  const bool worked = score_next() || score_heldout() || train_step();
  governor.unit_done();
  return worked;
}

void Learner::State::pause() {
  inbox.wait_for(has_work() ? kAskAgainUs : kIdleTickUs);
}

void Learner::State::announce_idle() {
  const std::lock_guard lock(idle_mutex);
  idle_through = taken + lost.load(std::memory_order_acquire);
  idle_changed.notify_all();
}

void Learner::State::take_in() {
  taken += inbox.take_all(events);
  for (; !events.empty(); events.pop_front()) {
    Event& event = events.front();
    if (auto* begun = std::get_if<ObservedRequest>(&event)) assembler.begin(std::move(*begun));
    if (const auto* seen = std::get_if<Observation>(&event)) assembler.record(*seen);
    const auto* finished = std::get_if<Finish>(&event);
    if (finished == nullptr) continue;
    auto record = assembler.finish(finished->request, finished->completed);
    if (record && fits_draft(*record)) append(std::move(*record));
  }
  wasted.fetch_add(assembler.take_lost(), std::memory_order_relaxed);
}

void Learner::State::append(ReplayRecord record) {
  const auto lose = [&] { wasted.fetch_add(record.target.size(), std::memory_order_relaxed); };
  if (!learning.on()) return learning.wanted() ? lose() : void();
  record.created_us = wall_us();
  try {
    record.sequence = replay.append(record);
    refused.store(false, std::memory_order_relaxed);
  } catch (const Error& error) {
    lose();
    refused.store(true, std::memory_order_relaxed);
    const std::int64_t now = monotonic_us();
    if (now - complained_us > kExpireEveryUs || complained_us == 0) {
      log_warn("learning: records are lost: " + error.message());
      complained_us = now;
    }
    return;
  }
  unscored.push_back(std::move(record));
  if (unscored.size() > kMaxUnscored) unscored.pop_front();
}

void Learner::State::keep_house() {
  const std::int64_t now = monotonic_us();
  if (now - synced_us < kSyncEveryUs) return;
  synced_us = now;
  try {
    replay.sync();
    if (now - expired_us >= kExpireEveryUs) {
      expired_us = now;
      replay.expire(calendar.believe(wall_us(), now));
    }
  } catch (const Error& error) {
    log_warn("learning: " + error.message());
  }
  records.store(replay.stats().records, std::memory_order_relaxed);
  for (Course& course : courses) course.slot->reclaim();
  const std::uint64_t all = lost.load(std::memory_order_acquire) + wasted.load(std::memory_order_relaxed);
  if (all > reported) decisions.on_dropped(all - reported);
  reported = all;
}

// Asked between two microbatches: serving first, and what it observed is taken in meanwhile.
bool Learner::State::in_unit() {
  governor.unit_done();
  for (;;) {
    if (stopping.load(std::memory_order_acquire)) return false;
    take_in();
    keep_house();
    if (learning.on() && governor.allow_unit()) return true;
    inbox.wait_for(kAskAgainUs);
  }
}

// ---- units of work

bool Learner::State::score_next() {
  if (unscored.empty()) return false;
  const ReplayRecord record = std::move(unscored.front());
  unscored.pop_front();
  Course* course = course_of(record.topic);
  if (course == nullptr) return true;
  try {
    examiner->examine_new(*course, record);
  } catch (const std::exception& error) {
    contain(*course, "scoring", error);
  }
  ++course->requests_seen;
  course->starved = false;
  return true;
}

bool Learner::State::score_heldout() {
  for (Course& course : courses) {
    try {
      if (examiner->examine_heldout(course)) return true;
    } catch (const std::exception& error) {
      contain(course, "scoring", error);
      return true;
    }
  }
  return false;
}

// Steps come in bursts of a batch's worth of requests, so that changing topics, which means a trip to the disk for the
// optimizer, stays rare. Within a burst the topic stays; the next one is the topic with most new requests.
Course* Learner::State::next_course() {
  Course* best = nullptr;
  const auto waiting = [](const Course& course) { return course.requests_seen - course.requests_at_burst; };
  for (Course& course : courses) {
    if (course.starved) continue;
    const bool allowed = governor.allow_step(course.requests_seen, course.steps_done);
    if (course.in_burst && !allowed) {
      course.in_burst = false;
      course.requests_at_burst = course.requests_seen;
    }
    if (!allowed) continue;
    if (course.in_burst) return &course;
    const bool enough = waiting(course) >= static_cast<std::uint64_t>(options.batch_requests);
    if (enough && (best == nullptr || waiting(course) > waiting(*best))) best = &course;
  }
  return best;
}

bool Learner::State::train_step() {
  Course* course = next_course();
  if (course == nullptr) return false;
  course->in_burst = true;
  try {
    DraftTrainer& trainer = seat->take(course->slot->name(), course->live);
    course->newest_drawn = replay.last_sequence();
    auto batch = replay.sample(course->topic, static_cast<std::size_t>(options.batch_requests), options.seed, draws++);
    std::erase_if(batch, [&](const ReplayRecord& record) { return !fits_draft(record); });
    course->starved = batch.empty();
    if (batch.empty()) return true;
    const TrainStep step = trainer.step(batch, [this] { return in_unit(); });
    if (stopping.load(std::memory_order_acquire)) return true;
    if (!step.skipped)
      course->loss = course->loss == 0 ? step.loss : kLossMemory * course->loss + (1 - kLossMemory) * step.loss;
    ++course->steps_done;
    ++course->steps_since_export;
    export_when_due(*course, trainer);
  } catch (const std::exception& error) {
    ++course->steps_done;  // or the same failure would be all that ever runs
    contain(*course, "training", error);
  }
  return true;
}

// A candidate that still waits for its verdict gives way to one trained further, once it had a fair number of requests.
void Learner::State::export_when_due(Course& course, DraftTrainer& trainer) {
  if (course.steps_since_export < static_cast<std::uint64_t>(options.steps_between_canaries)) return;
  if (course.candidate && course.candidate->trial.pairs.size() < 2 * options.canary.min_requests) return;
  course.steps_since_export = 0;
  if (course.candidate) {
    examiner->conclude(course);
    if (!seat->holds(course.slot->name())) return;  // refused as harmful: the trainer starts over
  }
  publisher->export_candidate(course, trainer, course.newest_drawn);
  if (!course.candidate) return;
  for (ReplayRecord& record : replay.heldout(course.topic, kHeldoutRecords)) {
    // Those that came since are still to be examined as new ones; nothing counts twice.
    const bool known = record.sequence <= course.candidate->cut_off;
    if (known && fits_draft(record)) course.candidate->heldout_left.push_back(std::move(record));
  }
}

// A failure of LibTorch, the disk or the weights costs the topic its trainer and its candidate, nothing else.
void Learner::State::contain(Course& course, const char* doing, const std::exception& error) {
  log_error("learning: " + course.topic + ": " + doing + " failed: " + error.what());
  Publisher::drop_candidate(course);
  try {
    seat->forget(course.slot->name());
  } catch (const std::exception& second) {
    log_error("learning: " + course.topic + ": " + second.what());
  }
}

// Replay files may be anybody's, and the embedding table has only so many rows.
bool Learner::State::fits_draft(const ReplayRecord& record) const {
  const std::int32_t vocab = base->weights->config.vocab_size;
  const auto in_vocab = [&](std::int32_t token) { return token >= 0 && token < vocab; };
  return std::all_of(record.tokens.begin(), record.tokens.end(), in_vocab) &&
         std::all_of(record.target.begin(), record.target.end(),
                     [&](const TopK& top) { return std::all_of(top.ids.begin(), top.ids.end(), in_vocab); });
}

Course* Learner::State::course_of(const std::string& topic) {
  const auto found =
      std::find_if(courses.begin(), courses.end(), [&](const Course& course) { return course.topic == topic; });
  return found == courses.end() ? nullptr : &*found;
}

std::string Learner::State::name_of(DraftId id) const {
  for (const auto& slot : slots) {
    if (slot && slot->id() == id) return slot->name();
  }
  return base->name;
}

// ---- the face

Learner::Learner(LearnerOptions options, const TopicTable& topics, std::vector<std::shared_ptr<DraftSlot>> slots,
                 std::shared_ptr<const DraftVersion> base, DraftStore& store, ReplayBuffer& replay, Governor& governor,
                 DecisionSink& decisions)
    : state_(std::make_unique<State>(std::move(options), topics, std::move(slots), std::move(base), store, replay,
                                     governor, decisions)) {}

Learner::~Learner() {
  stop();
}

void Learner::begin(ObservedRequest request) noexcept {
  state_->lost.fetch_add(state_->inbox.push(Event(std::move(request))), std::memory_order_acq_rel);
}

void Learner::record(Observation observation) noexcept {
  state_->lost.fetch_add(state_->inbox.push(Event(std::move(observation))), std::memory_order_acq_rel);
}

void Learner::finish(RequestId request, bool completed) noexcept {
  state_->lost.fetch_add(state_->inbox.push(Event(Finish{request, completed})), std::memory_order_acq_rel);
}

void Learner::start() {
  if (!state_->thread.joinable()) state_->thread = std::thread([this] { state_->run(); });
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

bool Learner::replay_refused() const {
  return state_->refused.load(std::memory_order_relaxed);
}

std::uint64_t Learner::replay_records() const {
  return state_->records.load(std::memory_order_relaxed);
}

std::uint64_t Learner::dropped() const {
  return state_->lost.load(std::memory_order_acquire) + state_->wasted.load(std::memory_order_relaxed);
}

}  // namespace slip
