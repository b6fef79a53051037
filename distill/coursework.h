// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distill/course.h"
#include "distill/draft_scorer.h"
#include "distill/examiner.h"
#include "distill/learner.h"
#include "distill/publisher.h"
#include "distill/trainer_seat.h"
#include "kernels/thread_pool.h"

namespace slip {

// What coursework is done with; all but `slots` and `topics`, which the constructor reads, outlives it.
struct CourseworkSetting {
  const LearnerOptions& options;
  const TopicTable& topics;
  const std::vector<std::shared_ptr<DraftSlot>>& slots;  // as Learner's
  std::shared_ptr<const DraftVersion> base;
  DraftStore& store;
  ReplayBuffer& replay;
  Governor& governor;
  DecisionSink& decisions;
  const std::atomic<bool>& stopping;  // a unit that finds it set ends without consequences
  std::function<bool()> go_on;        // asked between two microbatches; may take() records meanwhile
};

// The learner's units of work over the courses of all topics: scoring what came, training on it, sending candidates to
// the canary. What a unit is worth is decided here; when one may be done is the caller's business. A failure costs the
// topic it befell its trainer and its candidate, nothing else. Threads: one owner, made there, so that pools and
// buffers belong to its priority.
class Coursework {
 public:
  // Takes up every topic whose slot serves a draft. Errors: those of the store and of the optimizer's folder.
  explicit Coursework(CourseworkSetting setting);

  bool has_work();
  LearningUnit next_unit() const;  // what work_once() would do, for the governor
  // One unit; false when there was nothing to do.
  bool work_once();
  // Whether drafts can be taught this record: replay files may be anybody's, and the embedding table has only so many
  // rows.
  bool fits(const ReplayRecord& record) const;
  // A record that waits to be scored; the oldest goes when too many do. REQUIRES: fits(record).
  void take(ReplayRecord record);
  void reclaim();  // frees versions that nobody serves any more
  void save();     // the optimizer's state
  // Removes what unfinished candidates left in the staging area.
  void drop_candidates();

 private:
  bool score_next();
  bool score_heldout();
  bool train_step();
  Course* next_course();
  void export_when_due(Course& course, DraftTrainer& trainer);
  void contain(Course& course, const char* doing, const std::exception& error);
  Course* course_of(const std::string& topic);

  const LearnerOptions& options_;
  const std::shared_ptr<const DraftVersion> base_;
  ReplayBuffer& replay_;
  Governor& governor_;
  const std::atomic<bool>& stopping_;
  const std::function<bool()> go_on_;
  TrainerSeat seat_;
  Publisher publisher_;
  kernels::ThreadPool pool_;
  DraftScorer scorer_;
  Examiner examiner_;
  std::vector<Course> courses_;
  std::deque<ReplayRecord> unscored_;
  std::uint64_t draws_ = 0;
};

}  // namespace slip
