// SPDX-License-Identifier: Apache-2.0
#include "distill/coursework.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/error.h"
#include "common/log.h"

namespace slip {
namespace {

constexpr std::size_t kMaxUnscored = 512;    // finished records in memory while the governor says no
constexpr std::size_t kHeldoutRecords = 32;  // a fresh candidate is scored on
constexpr double kLossMemory = 0.8;          // of the smoothed training loss

}  // namespace

Coursework::Coursework(CourseworkSetting setting)
    : options_(setting.options),
      base_(std::move(setting.base)),
      replay_(setting.replay),
      governor_(setting.governor),
      stopping_(setting.stopping),
      go_on_(std::move(setting.go_on)),
      seat_(options_.trainer, options_.optimizer_folder),
      publisher_({options_.serve_dtype, options_.pack, options_.canary.min_requests}, base_, setting.store, seat_,
                 setting.decisions),
      pool_(std::max(1, options_.cores)),
      scorer_(base_->weights->config, base_->weights->config.max_positions, pool_),
      examiner_(options_.canary, options_.k, base_, scorer_, publisher_, setting.decisions) {
  const auto& slots = setting.slots;
  const TopicTable& topics = setting.topics;
  for (std::size_t i = 0; i < slots.size() && i < topics.size(); ++i) {
    if (!slots[i] || !slots[i]->get()) continue;
    Course course;
    course.topic = topics[TopicId{static_cast<std::uint32_t>(i)}].name;
    course.slot = slots[i];
    publisher_.enrol(course);
    courses_.push_back(std::move(course));
  }
}

void Coursework::drop_candidates() {
  for (Course& course : courses_) Publisher::drop_candidate(course);
}

void Coursework::save() {
  seat_.save();
}

void Coursework::reclaim() {
  for (Course& course : courses_) course.slot->reclaim();
}

bool Coursework::has_work() {
  const auto waits = [](const Course& course) { return course.candidate && !course.candidate->heldout_left.empty(); };
  return !unscored_.empty() || std::any_of(courses_.begin(), courses_.end(), waits) || next_course() != nullptr;
}

LearningUnit Coursework::next_unit() const {
  const auto waits = [](const Course& course) { return course.candidate && !course.candidate->heldout_left.empty(); };
  const bool scores = !unscored_.empty() || std::any_of(courses_.begin(), courses_.end(), waits);
  return scores ? LearningUnit::kScoring : LearningUnit::kTraining;
}

// Most useful first: a record is scored before anything is trained on it.
bool Coursework::work_once() {
  return score_next() || score_heldout() || train_step();
}

void Coursework::take(ReplayRecord record) {
  unscored_.push_back(std::move(record));
  if (unscored_.size() > kMaxUnscored) unscored_.pop_front();
}

bool Coursework::score_next() {
  if (unscored_.empty()) return false;
  const ReplayRecord record = std::move(unscored_.front());
  unscored_.pop_front();
  Course* course = course_of(record.topic);
  if (course == nullptr) return true;
  try {
    examiner_.examine_new(*course, record);
  } catch (const std::exception& error) {
    contain(*course, "scoring", error);
  }
  ++course->requests_seen;
  course->starved = false;
  return true;
}

bool Coursework::score_heldout() {
  for (Course& course : courses_) {
    try {
      if (examiner_.examine_heldout(course)) return true;
    } catch (const std::exception& error) {
      contain(course, "scoring", error);
      return true;
    }
  }
  return false;
}

// Steps come in bursts of a batch's worth of requests, so that changing topics, which means a trip to the disk for the
// optimizer, stays rare. Within a burst the topic stays; the next one is the topic with most new requests.
Course* Coursework::next_course() {
  Course* best = nullptr;
  const auto waiting = [](const Course& course) { return course.requests_seen - course.requests_at_burst; };
  for (Course& course : courses_) {
    if (course.starved) continue;
    const bool allowed = governor_
                             .allow_step({.topic = static_cast<std::size_t>(&course - courses_.data()),
                                          .requests_seen = course.requests_seen,
                                          .steps_done = course.steps_done})
                             .allowed;
    if (course.in_burst && !allowed) {
      course.in_burst = false;
      course.requests_at_burst = course.requests_seen;
    }
    if (!allowed) continue;
    if (course.in_burst) return &course;
    const bool enough = waiting(course) >= static_cast<std::uint64_t>(options_.batch_requests);
    if (enough && (best == nullptr || waiting(course) > waiting(*best))) best = &course;
  }
  return best;
}

bool Coursework::train_step() {
  Course* course = next_course();
  if (course == nullptr) return false;
  course->in_burst = true;
  try {
    DraftTrainer& trainer = seat_.take(course->slot->name(), course->live);
    course->newest_drawn = replay_.last_sequence();
    auto batch =
        replay_.sample(course->topic, static_cast<std::size_t>(options_.batch_requests), options_.seed, draws_++);
    std::erase_if(batch, [&](const ReplayRecord& record) { return !fits(record); });
    course->starved = batch.empty();
    if (batch.empty()) return true;
    const TrainStep step = trainer.step(batch, go_on_);
    if (stopping_.load(std::memory_order_acquire)) return true;
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
void Coursework::export_when_due(Course& course, DraftTrainer& trainer) {
  if (course.steps_since_export < static_cast<std::uint64_t>(options_.steps_between_canaries)) return;
  if (course.candidate && course.candidate->trial.pairs.size() < 2 * options_.canary.min_requests) return;
  course.steps_since_export = 0;
  if (course.candidate) {
    examiner_.conclude(course);
    if (!seat_.holds(course.slot->name())) return;  // refused as harmful: the trainer starts over
  }
  publisher_.export_candidate(course, trainer, course.newest_drawn);
  if (!course.candidate) return;
  for (ReplayRecord& record : replay_.heldout(course.topic, kHeldoutRecords)) {
    // Those that came since are still to be examined as new ones; nothing counts twice.
    const bool known = record.sequence <= course.candidate->cut_off;
    if (known && fits(record)) course.candidate->heldout_left.push_back(std::move(record));
  }
}

// A failure of LibTorch, the disk or the weights costs the topic its trainer and its candidate, nothing else.
void Coursework::contain(Course& course, const char* doing, const std::exception& error) {
  log_error("learning: " + course.topic + ": " + doing + " failed: " + error.what());
  Publisher::drop_candidate(course);
  try {
    seat_.forget(course.slot->name());
  } catch (const std::exception& second) {
    log_error("learning: " + course.topic + ": " + second.what());
  }
}

bool Coursework::fits(const ReplayRecord& record) const {
  const std::int32_t vocab = base_->weights->config.vocab_size;
  const auto in_vocab = [&](std::int32_t token) { return token >= 0 && token < vocab; };
  return std::all_of(record.tokens.begin(), record.tokens.end(), in_vocab) &&
         std::all_of(record.target.begin(), record.target.end(),
                     [&](const TopK& top) { return std::all_of(top.ids.begin(), top.ids.end(), in_vocab); });
}

Course* Coursework::course_of(const std::string& topic) {
  const auto found =
      std::find_if(courses_.begin(), courses_.end(), [&](const Course& course) { return course.topic == topic; });
  return found == courses_.end() ? nullptr : &*found;
}

}  // namespace slip
