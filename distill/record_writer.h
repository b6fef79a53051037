// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/owner_calls.h"
#include "common/purge_scope.h"
#include "distill/learning_switch.h"
#include "distill/lossy_inbox.h"
#include "distill/replay/near_copies.h"
#include "distill/replay/record_assembler.h"
#include "distill/replay/replay_buffer.h"
#include "distill/waiting_record.h"
#include "engine/speculative/observation.h"
#include "router/topic.h"

namespace slip {

struct RecordWriterOptions {
  std::size_t queue_observations = 4096;  // capacity of the inbox; beyond it the oldest are dropped
  std::int32_t vocab_size = 0;            // of the drafts; a record with another token is not kept
  NearCopiesOptions near_copies;
  // Of records that wait for a learner without time; beyond it the oldest are dropped. All are in replay.
  std::uint64_t learner_bytes = std::uint64_t{40} << 20;
};

// Turns observations into records: assembles them, finds near-copies, appends the records to replay, and hands them to
// the learner. It has a thread of its own, which owns the replay buffer. So a record is on disk soon after its request
// has finished, even while the learner computes or gets no time. The thread sleeps while no request finishes; per
// request it works for well under a millisecond. Its nice level lets it run on a busy machine.
//
// begin(), record() and finish() never block, not even on a lock: they push to a bounded inbox, which drops the oldest
// items and counts them. Threads: those three the engine's; take_all(), wait_for(), pause_for() and what
// ReplayReader has, the learner's; the rest any.
class RecordWriter final : public ObservationSink, public ReplayReader {
 public:
  // `draft_name` maps the draft id of an observation to the name that records store. All references must outlive this.
  RecordWriter(RecordWriterOptions options, const TopicTable& topics, std::function<std::string(DraftId)> draft_name,
               ReplayBuffer& replay, const LearningSwitch& learning);
  ~RecordWriter() override;  // stop()

  void begin(ObservedRequest request) noexcept override;
  void record(Observation observation) noexcept override;
  void finish(RequestId request, bool completed) noexcept override;

  // The thread first reads the newest records of each topic, so that near-copies of them are found.
  void start();
  void stop();  // appends the records of all finished requests, syncs replay, and joins the thread

  // Appends the records that were taken in since the last call to `out`, oldest first. Returns the number of pushed()
  // events whose records, if any, this call and earlier ones have delivered.
  std::uint64_t take_all(std::deque<WaitingRecord>& out);
  // The same for a learner that cannot use its records yet, which collects them in `waiting`. The oldest beyond the
  // inbox's capacity are dropped and count as untaken.
  std::uint64_t take_all_within_capacity(std::deque<WaitingRecord>& waiting);
  void wait_for(std::int64_t timeout_us);   // returns when records may have come, on wake(), or after the time-out
  void pause_for(std::int64_t timeout_us);  // returns on wake(), or after the time-out
  void wake() { records_.wake(); }
  void hurry() { inbox_.wake(); }  // takes in the pushed events now, not at a request's end
  std::uint64_t pushed() const { return inbox_.pushed(); }

  std::vector<ReplayRecord> sample(const std::string& topic, std::size_t n, std::uint64_t seed, std::uint64_t draw,
                                   std::uint64_t newest) const override;
  std::vector<ReplayRecord> heldout(const std::string& topic, std::size_t limit, std::uint64_t newest) const override;
  // The thread draws these records while the learner computes. A purge drops them.
  void prepare(const SampleAddress& next) const noexcept override;

  // Removes the records of a scope, including those of running requests, from this object and from the disk. Background
  // requests that were asked for earlier give no record. Returns the number of records on disk. Errors: those of
  // ReplayBuffer::purge().
  std::size_t purge(const PurgeScope& scope);

  bool refused() const { return refused_.load(std::memory_order_relaxed); }  // the last append to replay failed
  bool upkeep_fails() const { return upkeep_fails_.load(std::memory_order_relaxed); }          // sync or expiry
  std::uint64_t replay_records() const { return n_records_.load(std::memory_order_relaxed); }  // as of the last second
  std::uint64_t near_copies_bytes() const { return near_copies_bytes_.load(std::memory_order_relaxed); }
  // Records that the learner had no time for: dropped before it took them, but kept in replay.
  std::uint64_t untaken() const { return records_.lost() + dropped_later_.load(std::memory_order_relaxed); }
  // Observations that became part of no record.
  std::uint64_t dropped() const { return inbox_.lost() + wasted_.load(std::memory_order_relaxed); }

 private:
  struct Finish {
    RequestId request;
    bool completed = false;
    std::int64_t at_us = 0;  // wall clock: a purge by time finds the record by it, however late it is taken in
  };
  using Event = std::variant<ObservedRequest, Observation, Finish>;
  struct Batch {
    SampleAddress address;
    std::vector<ReplayRecord> records;
  };

  void run();
  void recall_texts();
  void take_in();
  void keep(ReplayRecord record);
  bool find_group(ReplayRecord& record);
  bool is_purged(const ObservedRequest& request) const;
  void append(ReplayRecord& record);
  std::uint64_t weight_of(const ReplayRecord& record) const;
  void prepare_batch() noexcept;
  void report_loss(const std::exception& error);
  void replay_upkeep_when_due();

  const RecordWriterOptions options_;
  ReplayBuffer& replay_;
  const LearningSwitch& learning_;

  LossyInbox<Event> inbox_;
  LossyInbox<WaitingRecord> records_;            // for the learner
  std::atomic<std::uint64_t> dropped_later_{0};  // by take_all_within_capacity()
  std::atomic<std::uint64_t> wasted_{0};         // observations taken in that became part of no record
  std::atomic<std::uint64_t> handled_{0};
  std::atomic<std::uint64_t> n_records_{0};
  std::atomic<std::uint64_t> near_copies_bytes_{0};
  std::atomic<bool> refused_{false};
  std::atomic<bool> upkeep_fails_{false};
  std::atomic<bool> stopping_{false};
  mutable OwnerCalls calls_;
  mutable std::atomic<Batch*> wanted_{nullptr};    // to be drawn by this thread; who exchanges it owns it
  mutable std::atomic<Batch*> prepared_{nullptr};  // drawn; likewise

  // Used by the owner only: this thread, or a caller while there is none.
  RecordAssembler assembler_;
  std::deque<Event> events_;
  std::map<std::string, NearCopies> near_copies_;  // by topic
  std::uint64_t taken_ = 0;
  std::int64_t synced_us_ = 0, expired_us_ = 0, loss_logged_us_ = 0;
  std::int64_t purged_us_ = 0;  // monotonic; the last purge
  bool loss_logged_ = false;    // a loss of records was logged, the recovery not yet

  std::thread thread_;
};

}  // namespace slip
