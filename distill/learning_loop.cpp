// SPDX-License-Identifier: Apache-2.0
#include "distill/learning_loop.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/log.h"

namespace slip {
namespace {

constexpr std::size_t kMaxUnscored = 128;  // waiting records of a topic in memory while the governor refuses
// Their answer tokens, each with a distribution of about 320 bytes: 42 MB. The newest record may always wait.
constexpr std::size_t kMaxUnscoredTokens = std::size_t{128} * 1024;
constexpr int kTriesForOneCause = 10;   // 3 minutes
constexpr double kLossMemory = 0.8;     // decay of the smoothed training loss
constexpr double kSecondsMemory = 0.9;  // decay of the smoothed step time

double seconds(std::int64_t us) {
  return static_cast<double>(us) / 1e6;
}

// Adds the CPU time of this thread during its life to a sum of seconds, however its scope is left.
class CpuSeconds {
 public:
  explicit CpuSeconds(double& sum) : sum_(sum) {}
  ~CpuSeconds() { sum_ += so_far(); }
  CpuSeconds(const CpuSeconds&) = delete;
  CpuSeconds& operator=(const CpuSeconds&) = delete;

  double so_far() const { return seconds(thread_cpu_us() - began_us_); }

 private:
  double& sum_;
  const std::int64_t began_us_ = thread_cpu_us();
};

std::size_t answer_tokens(const std::deque<WaitingRecord>& waiting) {
  std::size_t n = 0;
  for (const WaitingRecord& one : waiting) n += one.record.target.size();
  return n;
}

// Counts a failure of the same cause as the one before. True: too often to try again. Only a cause that lies in a
// draft's weights counts: a full disk or a lack of memory may end by itself.
bool count_cause(FailureSpell& spell, const std::exception& error) {
  const auto* fault = dynamic_cast<const Error*>(&error);
  const bool in_weights = fault != nullptr && fault->code() == ErrorCode::kDataLoss;
  const std::string cause = in_weights ? fault->message() : std::string();
  spell.n_same = in_weights ? (cause == spell.cause ? spell.n_same + 1 : 1) : 0;
  spell.cause = cause;
  return spell.n_same >= kTriesForOneCause;
}

void end_spell(const TopicState& topic, FailureSpell& spell, const char* doing) {
  if (spell.n == 0) return;
  log_info("learning: " + topic.topic + ": " + doing + " works again, after " +
           counted(static_cast<std::uint64_t>(spell.n), "failure"));
  spell = {};
}

ResidentTrainersOptions trainers_options(const LearnerOptions& options, std::function<void()> before_write) {
  return {options.trainer, options.optimizer_folder, options.memory_bytes, options.save_us, std::move(before_write)};
}

}  // namespace

std::int64_t wait_after_failures_us(int n) {
  constexpr std::int64_t kFirstUs = 1'000'000, kMostUs = 30'000'000;
  constexpr int kMostDoublings = 5;  // 32 s, above kMostUs
  return std::min(kMostUs, kFirstUs << std::min(n - 1, kMostDoublings));
}

bool count_failure(FailureSpell& spell) {
  spell.retry_us = monotonic_us() + wait_after_failures_us(++spell.n);
  return spell.n == 1;
}

EarlierRecords earlier_records(const ReplayBuffer& replay) {
  EarlierRecords earlier{replay.last_sequence(), {}};
  for (const std::string& topic : replay.topics()) earlier.by_topic[topic] = replay.records(topic);
  return earlier;
}

LearningLoop::LearningLoop(LearningLoopSetting setting)
    : options_(setting.options),
      base_(std::move(setting.base)),
      replay_(setting.replay),
      governor_(setting.governor),
      go_on_(std::move(setting.go_on)),
      give_cores_back_(std::move(setting.end_unit)),
      trainers_(trainers_options(options_, [this] { end_unit(); })),
      publisher_({options_.serve_dtype, options_.pack, options_.canary.margin, [this] { end_unit(); }, go_on_}, base_,
                 setting.store, trainers_, setting.decisions),
      pool_(std::max(1, options_.cores)),
      scorer_(base_->weights->config, base_->weights->config.max_positions, pool_, options_.prompt_lookup),
      canary_(options_.canary, options_.k, base_, scorer_, replay_, publisher_, setting.decisions),
      choice_(topics_, governor_, *base_->weights, options_.batch_requests),
      newest_taken_(setting.earlier.last_sequence),
      started_us_(monotonic_us()) {
  const auto& live_drafts = setting.live_drafts;
  const TopicTable& topics = setting.topics;
  for (std::size_t i = 0; i < live_drafts.size() && i < topics.size(); ++i) {
    if (!live_drafts[i] || !live_drafts[i]->get()) continue;
    TopicState topic;
    topic.id = TopicId{static_cast<std::uint32_t>(i)};
    topic.topic = topics[topic.id].name;
    topic.live_draft = live_drafts[i];
    publisher_.enrol(topic);
    const auto earlier = setting.earlier.by_topic.find(topic.topic);
    topic.records_before = earlier == setting.earlier.by_topic.end() ? 0 : earlier->second;
    topic.figures.topic = topic.topic;
    topic.figures.draft = topic.live_draft->name();
    topic.figures.live_version = topic.live.version->number;
    resume_curve(topic);
    topics_.push_back(std::move(topic));
  }
}

void LearningLoop::save() {
  remember_curves();
  trainers_.save_all();
}

void LearningLoop::save_due(std::int64_t now_us) {
  remember_curves();
  trainers_.save_due(now_us);
}

// What an earlier run measured. A curve from the beginning knows only the prior, by which a draft that has learned a
// lot would not pay back, and each restart would stop training for dozens of requests.
void LearningLoop::resume_curve(TopicState& topic) const {
  const auto saved = trainers_.saved(topic.live_draft->name(), topic.live);
  if (!saved) return;
  topic.curve = saved->curve;
  topic.step_seconds = saved->step_seconds;
}

void LearningLoop::remember_curves() {
  for (const TopicState& topic : topics_) {
    trainers_.remember(topic.live_draft->name(), topic.curve, topic.step_seconds);
  }
}

void LearningLoop::end_unit() {
  unit_ended_ = true;
  give_cores_back_();
}

void LearningLoop::reclaim() {
  for (TopicState& topic : topics_) topic.live_draft->reclaim();
}

// ---- records ----

void LearningLoop::take(WaitingRecord waiting) {
  const ReplayRecord& record = waiting.record;
  newest_taken_ = std::max(newest_taken_, record.sequence);
  TopicState* topic = topic_of(record.topic);
  if (topic == nullptr) return;
  topic->starved = false;
  if (topic->undrawn_since_us == 0) topic->undrawn_since_us = monotonic_us();
  if (record.sampled) {
    ++topic->sampled_seen;
    ++topic->figures.sampled_answers;
    return;
  }
  ++topic->requests_seen;
  ++topic->figures.requests;
  if (waiting.may_be_sampled) topic->sampler.add(record, options_.sampled_answers);
  if (record.processed_logits) return;  // drafts cannot be scored on it
  if (!choice_.worth_scoring(*topic)) return;
  topic->unscored.push_back(std::move(waiting));
  std::size_t n_tokens = answer_tokens(topic->unscored);
  while (topic->unscored.size() > kMaxUnscored || (topic->unscored.size() > 1 && n_tokens > kMaxUnscoredTokens)) {
    n_tokens -= topic->unscored.front().record.target.size();
    topic->unscored.pop_front();
    ++topic->figures.records_unscored;
  }
}

void LearningLoop::forget(const PurgeScope& scope) {
  const auto purged = [&](const ReplayRecord& record) { return is_in(scope, record); };
  for (TopicState& topic : topics_) {
    topic.sampler.forget(scope);
    std::erase_if(topic.unscored, [&](const WaitingRecord& waiting) { return purged(waiting.record); });
    if (topic.candidate) std::erase_if(topic.candidate->heldout_left, purged);
  }
}

// ---- what comes next ----

std::optional<LearningUnit> LearningLoop::next_unit(bool may_train) {
  next_ = choice_.topic_to_score();
  return choice_.next_unit(/*may_score=*/next_ != nullptr, may_train);
}

bool LearningLoop::holds_records() const {
  return std::any_of(topics_.begin(), topics_.end(), [](const TopicState& topic) { return !topic.unscored.empty(); });
}

// Scores all waiting records before a training step, since scores on text that was trained on are no evidence.
void LearningLoop::run(LearningUnit unit) {
  unit_ended_ = false;
  if (is_scoring(unit)) return score_next();
  for (next_ = choice_.topic_to_score(); next_ != nullptr && !unit_ended_; next_ = choice_.topic_to_score()) {
    score_next();
  }
  if (unit_ended_) return;  // without cores, the step would take long
  next_ = choice_.topic_to_export();
  if (next_ != nullptr) return export_again();
  next_ = choice_.topic_to_train();  // the verdicts may have changed what pays
  if (next_ != nullptr) train_step();
}

std::optional<Request> LearningLoop::next_sample() {
  TopicState* topic = choice_.topic_to_sample();
  if (topic == nullptr) return std::nullopt;
  return topic->sampler.next({topic->id, topic->live_draft->id(), TopicSource::kNone}, n_samples_++);
}

// ---- scoring ----

void LearningLoop::score_next() {
  TopicState& topic = *next_;
  const CpuSeconds spent(topic.figures.scoring_s);
  ++topic.scored;
  try {
    if (!canary_.score_heldout(topic)) {
      const WaitingRecord waiting = std::move(topic.unscored.front());
      topic.unscored.pop_front();
      canary_.score_new(topic, waiting);
    }
    end_spell(topic, topic.scoring_failures, "scoring");
  } catch (const std::exception& error) {
    contain(topic, topic.scoring_failures, "scoring", error);
  }
}

// ---- training ----

std::vector<ReplayRecord> LearningLoop::next_batch(TopicState& topic) {
  const auto n = static_cast<std::size_t>(options_.batch_requests);
  const std::string& draft = topic.live_draft->name();
  auto batch = replay_.sample(topic.topic, n, options_.seed, trainers_.next_draw(draft), newest_taken_);
  // For the next step, unless a record comes or another topic's turn: waiting for replay with a core would waste it.
  replay_.prepare({topic.topic, n, options_.seed, trainers_.coming_draw(draft), newest_taken_});
  const std::int32_t vocab_size = base_->weights->config.vocab_size;
  std::erase_if(batch, [&](const ReplayRecord& record) { return !fits_vocabulary(record, vocab_size); });
  topic.starved = batch.empty();
  topic.newest_drawn = newest_taken_;
  topic.undrawn_since_us = 0;
  return batch;
}

// An abandoned or failed step and the export after a step also cost time, so they count.
void LearningLoop::train_step() {
  TopicState& topic = *next_;
  choice_.begin_step(topic);
  const CpuSeconds spent(topic.figures.training_s);
  try {
    DraftTrainer& trainer = trainers_.take(topic.live_draft->name(), topic.live);
    if (unit_ended_) return;  // another trainer was saved to make room
    const auto batch = next_batch(topic);
    if (batch.empty()) return;
    bool went_on = true;
    const TrainStep step = trainer.step(batch, [&] { return went_on = go_on_(); });
    if (!went_on) return;  // shutdown, or serving needs the core: nothing was changed
    end_spell(topic, topic.training_failures, "training");
    count_step(topic, step, spent.so_far());
    export_when_due(topic, trainer);
  } catch (const std::exception& error) {
    ++topic.steps_done;  // otherwise the same failing step would run again and again
    contain(topic, topic.training_failures, "training", error);
  }
}

void LearningLoop::export_again() {
  TopicState& topic = *next_;
  const CpuSeconds spent(topic.figures.training_s);
  try {
    DraftTrainer& trainer = trainers_.take(topic.live_draft->name(), topic.live);
    if (!unit_ended_) export_when_due(topic, trainer);  // else another trainer was saved to make room
  } catch (const std::exception& error) {
    contain(topic, topic.training_failures, "training", error);
  }
}

void LearningLoop::count_step(TopicState& topic, const TrainStep& step, double took_s) {
  smooth(topic.step_seconds, took_s, kSecondsMemory);
  if (!step.skipped) smooth(topic.figures.loss, step.loss, kLossMemory);
  ++topic.steps_done;
  ++topic.steps_since_export;
  topic.figures.optimizer_steps = topic.steps_done;
}

// Replaces a candidate without a verdict by a newer export, if it was scored on no record yet or on min_requests. The
// new candidate inherits the evidence, since both are exports of the same trainer. The trainer's own steps decide when:
// those of an earlier run count, and those before it was restarted do not.
void LearningLoop::export_when_due(TopicState& topic, DraftTrainer& trainer) {
  const auto least = static_cast<std::uint64_t>(options_.steps_between_candidates);
  const auto trained = static_cast<std::uint64_t>(trainer.steps());
  topic.export_waits = false;
  if (topic.steps_since_export < steps_between_exports(least, trained)) return;
  if (topic.candidate && !topic.candidate->heldout_left.empty()) return;
  const std::size_t scored = topic.candidate_test.own_size();
  if (topic.candidate && scored > 0 && scored < options_.canary.min_requests) return;
  topic.export_waits = !publisher_.export_candidate(topic, trainer, topic.newest_drawn);
  if (!topic.export_waits) topic.steps_since_export = 0;
}

// Contains a failure of LibTorch, the disk or the weights: the topic loses its trainer and its candidate, nothing else.
void LearningLoop::contain(TopicState& topic, FailureSpell& spell, const char* doing, const std::exception& error) {
  const bool is_first = count_failure(spell);
  topic.figures.state = std::string(doing) + " failed: " + error.what();
  if (count_cause(spell, error)) give_up(topic, spell, doing);
  if (is_first) {
    log_error("learning: " + topic.topic + ": " + doing + " failed: " + error.what() + kIsTriedAgain);
  }
  try {
    publisher_.abandon(topic);
  } catch (const std::exception& second) {
    if (is_first) log_error("learning: " + topic.topic + ": " + second.what());
  }
}

// Until the live version changes or the service restarts: each try makes a trainer and deletes it.
void LearningLoop::give_up(TopicState& topic, FailureSpell& spell, const char* doing) {
  spell.retry_us = FailureSpell::kNever;
  if (topic.scoring_failures.given_up()) topic.unscored.clear();
  const std::string own = topic.live.name == kBaseDraft
                              ? ""
                              : "draft " + topic.live.name + " version " + std::to_string(topic.live.number) + " and ";
  log_warn("learning: " + topic.topic + ": " + doing + " has failed " + std::to_string(spell.n_same) +
           " times and is not tried again: " + spell.cause + "; check " + own +
           "the base draft with `slipstream inspect`, serve another draft, and restart");
}

bool LearningLoop::failing() const {
  const bool any = std::any_of(topics_.begin(), topics_.end(), [](const TopicState& topic) {
    return topic.training_failures.n > 0 || topic.scoring_failures.n > 0;
  });
  return any || trainers_.failing();
}

// ---- figures ----

LearningFigures LearningLoop::figures(std::int64_t now_us) const {
  LearningFigures figures;
  figures.at_us = wall_us();
  figures.running_s = seconds(now_us - started_us_);
  figures.share_of_service = governor_.share_of_service();
  figures.cost_tokens_per_s = governor_.cost_tokens_per_s();
  figures.trainer_bytes = trainers_.bytes();
  figures.scorer_bytes = scorer_.bytes();
  for (const TopicState& topic : topics_) {
    TopicLearning one = topic.figures;
    one.records_waiting = topic.unscored.size();
    one.lag_s = topic.undrawn_since_us == 0 ? 0 : seconds(now_us - topic.undrawn_since_us);
    if (topic.candidate)
      figures.candidate_bytes += topic.candidate->weights->bytes() + topic.candidate->exported->bytes();
    figures.queue_bytes += topic.sampler.bytes();
    for (const WaitingRecord& waiting : topic.unscored) figures.queue_bytes += bytes_of(waiting.record);
    figures.topics.push_back(std::move(one));
  }
  return figures;
}

TopicState* LearningLoop::topic_of(const std::string& name) {
  const auto found =
      std::find_if(topics_.begin(), topics_.end(), [&](const TopicState& topic) { return topic.topic == name; });
  return found == topics_.end() ? nullptr : &*found;
}

}  // namespace slip
