// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distill/canary/draft_scorer.h"
#include "distill/canary_scorer.h"
#include "distill/governor.h"
#include "distill/learner.h"
#include "distill/publisher.h"
#include "distill/replay/replay_buffer.h"
#include "distill/replay/replay_reader.h"
#include "distill/resident_trainers.h"
#include "distill/topic_state.h"
#include "distill/unit_choice.h"
#include "distill/waiting_record.h"
#include "kernels/thread_pool.h"

namespace slip {

// The wait after the n-th failure in a row: 1 s, doubling up to 30 s. Pure. REQUIRES: n ≥ 1.
std::int64_t wait_after_failures_us(int n);
// Counts a failure and sets the time of the next try. True: it is the first in a row, and is to be logged.
bool count_failure(FailureSpell& spell);
inline constexpr const char* kIsTriedAgain = "; it is tried again after 1 s, then less often, every 30 s in the end";

// The records in replay before the first one of this run.
struct EarlierRecords {
  std::uint64_t last_sequence = 0;
  std::map<std::string, std::size_t> by_topic;
};
EarlierRecords earlier_records(const ReplayBuffer& replay);

// The collaborators of a learning loop. `live_drafts` and `topics` are only read by the constructor; all other
// references must outlive the loop.
struct LearningLoopSetting {
  const LearnerOptions& options;
  const TopicTable& topics;
  const std::vector<std::shared_ptr<LiveDraft>>& live_drafts;  // as Learner's
  std::shared_ptr<const DraftVersion> base;
  DraftStore& store;
  const ReplayReader& replay;
  const EarlierRecords& earlier;
  Governor& governor;
  DecisionSink& decisions;
  // Called between two parts of a step, and before and within an export. False abandons either. May take() records.
  std::function<bool()> go_on;
  // Gives the cores back. Called before a trainer's state or a candidate is written, since that takes long.
  std::function<void()> end_unit;
};

// Does the units of work that UnitChoice chooses: scores new records, trains on them, and sends candidates to the
// canary. The governor decides when a unit may run. A failure costs its topic the trainer and the candidate, nothing
// else. Training and scoring wait longer after each failure in a row. After ten of one cause that lies in a draft's
// weights they end until the live version changes. Threads: one owner, which must also construct it, so that pools and
// buffers get its priority.
class LearningLoop {
 public:
  // Starts every topic whose live draft has a version. Errors: those of the store and of the optimizer's folder.
  explicit LearningLoop(LearningLoopSetting setting);

  // The kind of the next unit; empty when there is nothing to do now. Pass `may_train` = false while the disk is low.
  std::optional<LearningUnit> next_unit(bool may_train);
  // Does the unit that next_unit() just returned. A training unit first scores all waiting records. It takes no step if
  // it had to write files, since the unit ended before that.
  void run(LearningUnit unit);
  bool holds_records() const;  // whether records wait to be scored, perhaps until there are more

  // Queues a record of a client's answer for scoring. When too many wait, the oldest of the topic is dropped. Training
  // draws from replay up to the newest record taken here. REQUIRES: fits_vocabulary(record, vocab_size of the drafts).
  void take(WaitingRecord waiting);
  // Drops the waiting records of a scope.
  void forget(const PurgeScope& scope);
  // A background request for a further answer to a client's prompt, of the topic that gains most by it. Empty: no topic
  // with such a prompt lacks answers. As of the last next_unit().
  std::optional<Request> next_sample();
  void reclaim();                      // frees versions that are no longer served
  void save_due(std::int64_t now_us);  // optimizer states with old unsaved steps
  void save();                         // all optimizer states
  LearningFigures figures(std::int64_t now_us) const;
  bool failing() const;  // whether the last attempt to train, score or save failed for any topic

 private:
  void resume_curve(TopicState& topic) const;
  void remember_curves();
  void end_unit();
  void score_next();
  void train_step();
  std::vector<ReplayRecord> next_batch(TopicState& topic);
  void count_step(TopicState& topic, const TrainStep& step, double took_s);
  void export_again();
  void export_when_due(TopicState& topic, DraftTrainer& trainer);
  void contain(TopicState& topic, FailureSpell& spell, const char* doing, const std::exception& error);
  static void give_up(TopicState& topic, FailureSpell& spell, const char* doing);
  TopicState* topic_of(const std::string& name);

  const LearnerOptions& options_;
  const std::shared_ptr<const DraftVersion> base_;
  const ReplayReader& replay_;
  Governor& governor_;
  const std::function<bool()> go_on_;
  const std::function<void()> give_cores_back_;
  ResidentTrainers trainers_;
  Publisher publisher_;
  kernels::ThreadPool pool_;
  DraftScorer scorer_;
  CanaryScorer canary_;
  std::vector<TopicState> topics_;
  UnitChoice choice_;
  std::uint64_t newest_taken_ = 0;  // sequence of the newest record that take() has seen, or that was there before
  TopicState* next_ = nullptr;      // topic of the unit that next_unit() returned
  bool unit_ended_ = false;         // during the current run(), to write files
  std::uint64_t n_samples_ = 0;     // background requests so far
  std::int64_t started_us_ = 0;
};

}  // namespace slip
