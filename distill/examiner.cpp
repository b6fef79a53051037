// SPDX-License-Identifier: Apache-2.0
#include "distill/examiner.h"

#include <utility>

#include "common/clock.h"

namespace slip {

AcceptanceScore Examiner::score(const ModelWeights& draft, const ReplayRecord& record) {
  if (scored_ != &record) scores_.clear();
  scored_ = &record;
  const auto known = scores_.find(&draft);
  if (known != scores_.end()) return known->second;
  return scores_[&draft] = scorer_.score(draft, record, k_);
}

void Examiner::add_to_candidate(Course& course, const ReplayRecord& record) {
  course.candidate->trial.pairs.push_back(
      {score(*course.candidate->weights, record), score(*course.live.version->weights, record)});
}

void Examiner::examine_new(Course& course, const ReplayRecord& record) {
  scored_ = nullptr;  // another record may live at the same address
  SameTextScore same_text;
  same_text.at_us = wall_us();
  same_text.topic = course.topic;
  same_text.draft = course.live.version->name;
  same_text.version = course.live.version->number;
  same_text.request = record.request;
  same_text.live = score(*course.live.version->weights, record);
  same_text.base = score(*base_->weights, record);
  decisions_.on_scored(same_text);
  if (course.watch) {
    course.watch->trial.pairs.push_back({same_text.live, score(*course.watch->previous.version->weights, record)});
  }
  if (course.candidate && record.sequence > course.candidate->cut_off) add_to_candidate(course, record);
  // The watch first: a candidate of a version that is rolled back is dropped with it.
  judge_live_when_due(course);
  judge_candidate_when_due(course);
}

bool Examiner::examine_heldout(Course& course) {
  if (!course.candidate || course.candidate->heldout_left.empty()) return false;
  scored_ = nullptr;
  const ReplayRecord record = std::move(course.candidate->heldout_left.front());
  course.candidate->heldout_left.pop_front();
  add_to_candidate(course, record);
  judge_candidate_when_due(course);
  return true;
}

// Held-out records come all at once: one look after the last of them, not one on the way.
void Examiner::judge_candidate_when_due(Course& course) {
  if (!course.candidate || !course.candidate->heldout_left.empty() || !course.candidate->trial.due()) return;
  Trial& trial = course.candidate->trial;
  const CanaryVerdict verdict = judge_candidate(options_, trial.pairs, trial.take_look());
  if (verdict.outcome == CanaryOutcome::kPublish) return publisher_.publish(course, verdict);
  if (verdict.outcome == CanaryOutcome::kRefuse) return publisher_.refuse(course, verdict);
  publisher_.report_undecided(course, verdict);
}

void Examiner::judge_live_when_due(Course& course) {
  if (!course.watch) return;
  Trial& trial = course.watch->trial;
  const bool over = trial.pairs.size() >= options_.rollback_requests;
  if (!over && !trial.due()) return;
  const CanaryVerdict verdict = judge_live(options_, trial.pairs, trial.take_look());
  if (verdict.outcome == CanaryOutcome::kRefuse) return publisher_.roll_back(course, verdict);
  if (verdict.outcome == CanaryOutcome::kPublish) course.watch.reset();
}

void Examiner::conclude(Course& course) {
  if (!course.candidate) return;
  Trial& trial = course.candidate->trial;
  CanaryVerdict verdict = judge_candidate(options_, trial.pairs, trial.take_look());
  if (verdict.outcome == CanaryOutcome::kPublish) return publisher_.publish(course, verdict);
  verdict.outcome = CanaryOutcome::kRefuse;
  verdict.reason = "superseded by further training, " + verdict.reason;
  publisher_.refuse(course, verdict);
}

}  // namespace slip
