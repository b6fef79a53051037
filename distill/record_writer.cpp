// SPDX-License-Identifier: Apache-2.0
#include "distill/record_writer.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"
#include "common/thread_priority.h"

namespace slip {
namespace {

constexpr int kNice = 10;                         // about a tenth of a busy core; a record needs far less
constexpr std::int64_t kSyncEveryUs = 1'000'000;  // "at most the last second short"
constexpr std::int64_t kExpireEveryUs = 600'000'000;
constexpr std::int64_t kIdleTickUs = 1'000'000;
constexpr std::size_t kMaxForLearner = 256;  // records that wait for a learner, however small
constexpr std::size_t kRecalled = 512;       // newest records of a topic that are read at the start

}  // namespace

RecordWriter::RecordWriter(RecordWriterOptions options, const TopicTable& topics,
                           std::function<std::string(DraftId)> draft_name, ReplayBuffer& replay,
                           const LearningSwitch& learning)
    : options_(options),
      replay_(replay),
      learning_(learning),
      inbox_(options_.queue_observations),
      records_(options_.learner_bytes),
      calls_([this] { inbox_.wake(); }),
      assembler_(topics, std::move(draft_name)) {}

RecordWriter::~RecordWriter() {
  stop();
  delete wanted_.load();
  delete prepared_.load();
}

// ---- the engine's side

void RecordWriter::begin(ObservedRequest request) noexcept {
  inbox_.push(Event(std::move(request)));
}

void RecordWriter::record(Observation observation) noexcept {
  // Only finished records are used, and waking a thread at every step would slow every step down.
  inbox_.push(Event(std::move(observation)), /*wakes=*/false);
}

void RecordWriter::finish(RequestId request, bool completed) noexcept {
  inbox_.push(Event(Finish{request, completed, wall_us()}));
}

// ---- the thread

void RecordWriter::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void RecordWriter::stop() {
  stopping_.store(true, std::memory_order_release);
  inbox_.wake();
  if (thread_.joinable()) thread_.join();
}

void RecordWriter::run() {
  name_thread("replay");
  set_nice(kNice);
  prepare_thread_memory();
  calls_.begin();
  recall_texts();
  while (true) {
    const bool last = stopping_.load(std::memory_order_acquire);
    bool failed = false;
    try {
      calls_.serve();
      take_in();
    } catch (const std::exception& error) {  // std::bad_alloc: what had not been taken in stays for the next round
      failed = true;
      report_loss(error);
    }
    prepare_batch();
    if (last) synced_us_ = 0;
    replay_upkeep_when_due();
    if (last) break;
    failed ? inbox_.pause_for(kIdleTickUs) : inbox_.wait_for(kIdleTickUs);
  }
  calls_.end();
}

// Training may have drawn what earlier runs recorded, so a near-copy of it is no evidence.
void RecordWriter::recall_texts() {
  try {
    for (const std::string& topic : replay_.topics()) {
      replay_.visit_newest_of_clients(topic, kRecalled, [this](ReplayRecord& record) { find_group(record); });
    }
  } catch (const std::exception& error) {
    log_parts(LogLevel::kWarn, {"learning: near-copies of some earlier requests count again: ", error.what()});
  }
}

void RecordWriter::take_in() {
  const std::uint64_t before = taken_;
  inbox_.take_all(events_);
  while (!events_.empty()) {
    Event event = std::move(events_.front());  // removed first, so that a bad_alloc does not meet it again
    events_.pop_front();
    ++taken_;
    auto* begun = std::get_if<ObservedRequest>(&event);
    if (begun != nullptr && !is_purged(*begun)) assembler_.begin(std::move(*begun));
    if (const auto* seen = std::get_if<Observation>(&event)) assembler_.record(*seen);
    const auto* finished = std::get_if<Finish>(&event);
    if (finished == nullptr) continue;
    auto record = assembler_.finish(finished->request, finished->completed);
    if (!record) continue;
    if (!record->sampled) record->created_us = finished->at_us;
    keep(std::move(*record));
  }
  wasted_.fetch_add(assembler_.take_lost(), std::memory_order_relaxed);
  handled_.store(taken_ + inbox_.lost(), std::memory_order_release);
  if (taken_ > before) records_.wake();
}

// Records are scored even while the disk is low, so that the live version stays under watch.
void RecordWriter::keep(ReplayRecord record) {
  if (!learning_.wanted() || !fits_vocabulary(record, options_.vocab_size)) return;
  WaitingRecord waiting;
  const bool is_new = !record.sampled && find_group(record);
  waiting.is_evidence = is_new && !record.processed_logits;
  waiting.may_be_sampled = is_new && !replay_.holds_out(record.group);
  waiting.since_us = monotonic_us();
  append(record);
  waiting.record = std::move(record);
  const std::uint64_t weight = weight_of(waiting.record);
  records_.push(std::move(waiting), /*wakes=*/true, weight);
}

// Its weight among the records that wait for the learner.
std::uint64_t RecordWriter::weight_of(const ReplayRecord& record) const {
  return std::max(bytes_of(record), options_.learner_bytes / kMaxForLearner);
}

// Sets the record's group, before it is stored. False for a near-copy of an earlier record.
bool RecordWriter::find_group(ReplayRecord& record) {
  NearCopies& near_copies = near_copies_.try_emplace(record.topic, options_.near_copies).first->second;
  const ContentGroup group = near_copies.add(record.tokens, static_cast<std::size_t>(record.prompt_tokens));
  record.group = group.id;
  return !group.seen;
}

// A purge may have removed the record whose prompt this is, after the learner asked for a further answer to it.
bool RecordWriter::is_purged(const ObservedRequest& request) const {
  return request.source && request.source->asked_us <= purged_us_;
}

// ---- replay

void RecordWriter::append(ReplayRecord& record) {
  const std::uint64_t next = replay_.last_sequence() + 1;
  try {
    if (learning_.on()) {
      record.sequence = replay_.append(record);
      refused_.store(false, std::memory_order_relaxed);
      if (std::exchange(loss_logged_, false)) log_info("learning: records are kept again");
      return;
    }
  } catch (const std::exception& error) {  // std::bad_alloc too
    report_loss(error);
  }
  record.sequence = next;
  wasted_.fetch_add(static_cast<std::uint64_t>(record.steps), std::memory_order_relaxed);  // its observations
}

void RecordWriter::report_loss(const std::exception& error) {
  refused_.store(true, std::memory_order_relaxed);
  const std::int64_t now = monotonic_us();
  if (loss_logged_ && now - loss_logged_us_ <= kExpireEveryUs) return;
  log_parts(LogLevel::kWarn, {"learning: records are lost: ", error.what()});
  loss_logged_us_ = now;
  loss_logged_ = true;
}

void RecordWriter::replay_upkeep_when_due() {
  const std::int64_t now = monotonic_us();
  if (now - synced_us_ < kSyncEveryUs) return;
  synced_us_ = now;
  try {
    n_records_.store(replay_.stats().records, std::memory_order_relaxed);
    replay_.sync();
    if (now - expired_us_ >= kExpireEveryUs) {
      expired_us_ = now;
      replay_.expire(wall_us(), now);
    }
    if (upkeep_fails_.exchange(false)) log_info("learning: the replay buffer can be written again");
  } catch (const std::exception& error) {
    if (!upkeep_fails_.exchange(true)) log_parts(LogLevel::kWarn, {"learning: ", error.what()});
  }
  std::uint64_t bytes = 0;
  for (const auto& [topic, near_copies] : near_copies_) bytes += near_copies.bytes();
  near_copies_bytes_.store(bytes, std::memory_order_relaxed);
}

std::size_t RecordWriter::purge(const PurgeScope& scope) {
  return calls_.call([&] {
    take_in();  // the records of all requests that finished before
    assembler_.forget(scope);
    purged_us_ = monotonic_us();
    delete prepared_.exchange(nullptr);  // it may hold records of the scope
    return replay_.purge(scope);
  });
}

// ---- the learner's side

// Reads handled_ first: the records of all those events are in the inbox by then.
std::uint64_t RecordWriter::take_all(std::deque<WaitingRecord>& out) {
  const std::uint64_t handled = handled_.load(std::memory_order_acquire);
  records_.take_all(out);
  return handled;
}

std::uint64_t RecordWriter::take_all_within_capacity(std::deque<WaitingRecord>& waiting) {
  const std::uint64_t handled = take_all(waiting);
  std::uint64_t sum = 0;
  for (const WaitingRecord& one : waiting) sum += weight_of(one.record);
  for (; waiting.size() > 1 && sum > options_.learner_bytes; waiting.pop_front()) {
    sum -= weight_of(waiting.front().record);
    dropped_later_.fetch_add(1, std::memory_order_relaxed);
  }
  return handled;
}

void RecordWriter::wait_for(std::int64_t timeout_us) {
  records_.wait_for(timeout_us);
}

void RecordWriter::pause_for(std::int64_t timeout_us) {
  records_.pause_for(timeout_us);
}

std::vector<ReplayRecord> RecordWriter::sample(const std::string& topic, std::size_t n, std::uint64_t seed,
                                               std::uint64_t draw, std::uint64_t newest) const {
  const SampleAddress address{topic, n, seed, draw, newest};
  const auto prepared = [&]() -> std::unique_ptr<Batch> {
    std::unique_ptr<Batch> batch(prepared_.exchange(nullptr));
    return batch && batch->address == address ? std::move(batch) : nullptr;
  };
  delete wanted_.exchange(nullptr);  // what is not begun would be late
  if (const auto batch = prepared()) return std::move(batch->records);
  return calls_.call([&] {
    if (const auto batch = prepared()) return std::move(batch->records);  // drawn while this call waited
    return replay_.sample(topic, n, seed, draw, newest);
  });
}

void RecordWriter::prepare(const SampleAddress& next) const noexcept {
  try {
    delete wanted_.exchange(new Batch{next, {}});
    inbox_.wake();
  } catch (const std::bad_alloc&) {  // sample() draws it
  }
}

// Of the thread, after what is urgent.
void RecordWriter::prepare_batch() noexcept {
  try {
    std::unique_ptr<Batch> batch(wanted_.exchange(nullptr));
    if (!batch) return;
    const SampleAddress& wanted = batch->address;
    batch->records = replay_.sample(wanted.topic, wanted.n, wanted.seed, wanted.draw, wanted.newest);
    delete prepared_.exchange(batch.release());
  } catch (const std::exception&) {  // sample() tries again and says so
  }
}

std::vector<ReplayRecord> RecordWriter::heldout(const std::string& topic, std::size_t limit,
                                                std::uint64_t newest) const {
  return calls_.call([&] { return replay_.heldout(topic, limit, newest); });
}

}  // namespace slip
