// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "checkpoints/data_directory_lock.h"
#include "checkpoints/draft_meta.h"
#include "checkpoints/store_folder.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "distill/warmup/warmup_answers.h"
#include "distill/warmup/warmup_output.h"
#include "distill/warmup/warmup_prompts.h"
#include "distill/warmup/warmup_work.h"
#include "engine/models/fingerprint.h"
#include "engine/sampling/random.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kStepsBetweenHeldout = 50;
constexpr std::size_t kFlatWindow = 4;   // measurements: the loss is flat after 200 steps without 1 % of gain
constexpr std::size_t kMaxHeldout = 96;  // answers per measurement: a stable mean, cheap compared with 50 steps
constexpr std::int64_t kMaxSkipsInARow = 50;
constexpr std::int64_t kReportEveryUs = 200'000;

[[noreturn]] void interrupted(const std::string& where) {
  throw Error(ErrorCode::kCancelled, "interrupted " + where + "; what is done so far is saved");
}

std::string beyond_share_text(std::int64_t n, double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", share);
  return std::to_string(n) + (n == 1 ? " prompt is" : " prompts are") + " left out by share = " + text.data() +
         ": the first part of each file is used; --share 1 takes all";
}

// Measures a rate, and tells when the next report is due.
class Pace {
 public:
  void add(std::int64_t amount) { amount_ += amount; }
  double per_second() const {
    const double seconds = static_cast<double>(monotonic_us() - start_us_) / 1e6;
    return seconds > 0 ? static_cast<double>(amount_) / seconds : 0;
  }
  double seconds_for(double share_left, double share_done) const {
    if (share_done <= 0) return -1;
    return static_cast<double>(monotonic_us() - start_us_) / 1e6 * share_left / share_done;
  }
  bool due() {
    const std::int64_t now = monotonic_us();
    if (now < next_us_) return false;
    next_us_ = now + kReportEveryUs;
    return true;
  }

 private:
  std::int64_t start_us_ = monotonic_us(), next_us_ = 0, amount_ = 0;
};

class WarmupJob {
 public:
  // Reads the prompts before it opens the work folder: a run whose data is refused leaves nothing to resume.
  WarmupJob(const WarmupOptions& options, WarmupObserver& observer)
      : options_(options), observer_(observer), prompts_(read_prompts()), work_(options) {}

  WarmupResult run() {
    collect_answers();
    make_trainer();
    train();
    return deliver();
  }

 private:
  std::vector<WarmupPrompt> read_prompts() const;
  void collect_answers();
  void take_answers(AnswerFile& file, const std::vector<WarmupPrompt>& prompts,
                    const std::vector<std::size_t>& missing);
  void split_answers(AnswerFile& file, const std::vector<WarmupPrompt>& prompts);
  void make_trainer();
  void train();
  void one_step(std::int64_t& skips_in_a_row);
  void measure_heldout();
  bool finished() const;
  void save();
  void report(bool always);
  std::vector<ReplayRecord> next_batch() const;
  WarmupResult deliver();

  const WarmupOptions& options_;
  WarmupObserver& observer_;
  std::vector<WarmupPrompt> prompts_;  // empty once they are answered
  WarmupWork work_;
  std::vector<ReplayRecord> training_, heldout_;
  std::unique_ptr<DraftTrainer> trainer_;
  WarmupHistory history_;
  Pace pace_;
  double loss_ = 0, alpha_ = 0;  // running means
  std::int64_t first_step_ = 0, saved_us_ = 0;
};

std::vector<WarmupPrompt> WarmupJob::read_prompts() const {
  PromptsLeftOut left_out;
  std::vector<WarmupPrompt> prompts = read_warmup_prompts(options_, left_out);
  if (left_out.beyond_share > 0) observer_.on_note(beyond_share_text(left_out.beyond_share, options_.share));
  if (left_out.without_room > 0)
    observer_.on_note(std::to_string(left_out.without_room) +
                      (left_out.without_room == 1 ? " prompt leaves no room for an answer and is left out"
                                                  : " prompts leave no room for an answer and are left out"));
  if (prompts.empty()) {
    const char* hint = left_out.without_room > 0 ? "shorten the prompts, or choose a target with a longer context"
                       : options_.share < 1      ? "raise --share"
                                                 : "give files with a JSON object with a prompt on each line";
    throw Error(ErrorCode::kInvalidArgument, "the data holds no prompt to learn from", hint, "data");
  }
  return prompts;
}

void WarmupJob::collect_answers() {
  const std::vector<WarmupPrompt> prompts = std::exchange(prompts_, {});
  AnswerFile file(work_.answers());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (!file.records().contains(i + 1)) missing.push_back(i);
  }
  if (work_.resumed()) {
    observer_.on_note("going on: " + std::to_string(prompts.size() - missing.size()) + " of " +
                      std::to_string(prompts.size()) + " answers are there");
  }
  if (!missing.empty()) take_answers(file, prompts, missing);
  split_answers(file, prompts);
}

void WarmupJob::take_answers(AnswerFile& file, const std::vector<WarmupPrompt>& prompts,
                             const std::vector<std::size_t>& missing) {
  kernels::ThreadPool pool(options_.threads);
  const AnsweringTarget target{ModelWeights::load(options_.target, options_.dtype), options_.device,
                               options_.target.string()};
  const auto total = static_cast<std::int64_t>(prompts.size());
  const auto already = total - static_cast<std::int64_t>(missing.size());
  std::int64_t done = already;
  Pace pace;
  bool stopped = false;
  const KeepGoing keep_going = [&] {
    stopped = stopped || observer_.stop_requested();
    if (pace.due()) {
      WarmupProgress progress{.phase = WarmupPhase::kAnswers, .done = done, .total = total};
      progress.tokens_per_s = pace.per_second();
      progress.seconds_left = pace.seconds_for(static_cast<double>(total - done), static_cast<double>(done - already));
      observer_.on_progress(progress);
    }
    return !stopped;
  };
  const AnswerSink sink = [&](const ReplayRecord& record) {
    pace.add(static_cast<std::int64_t>(record.target.size()));
    file.append(record);
    ++done;
    return true;
  };
  const std::span<const WarmupPrompt> all(prompts);
  if (options_.answers_from == AnswersFrom::kData) {
    force_answers(target, all, missing, pool, sink, keep_going);
  } else {
    const AnswerOptions answer{options_.temperature, options_.max_tokens, options_.concurrency, options_.seed};
    write_answers(target, all, missing, answer, pool, sink, keep_going);
  }
  file.sync();
  if (stopped) interrupted("at answer " + std::to_string(done) + " of " + std::to_string(total));
}

void WarmupJob::split_answers(AnswerFile& file, const std::vector<WarmupPrompt>& prompts) {
  for (auto& [id, record] : file.records()) {
    const std::size_t index = id - 1;
    const bool ours = index < prompts.size() && record.tokens.size() > prompts[index].tokens.size() &&
                      std::equal(prompts[index].tokens.begin(), prompts[index].tokens.end(), record.tokens.begin());
    if (!ours) {
      throw Error(ErrorCode::kDataLoss, work_.answers().string() + " holds an answer to another prompt",
                  "pass --force to begin anew");
    }
    (prompts[index].heldout ? heldout_ : training_).push_back(std::move(record));
  }
  file.records().clear();
  if (heldout_.empty() && training_.size() > 1) {  // with few prompts the hash may hold out none
    heldout_.push_back(std::move(training_.back()));
    training_.pop_back();
  }
  if (training_.empty() || heldout_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "one prompt is not enough to train on and to measure with",
                "give more --data, or raise --share", "data");
  }
  std::vector<ReplayRecord> chosen;
  for (const std::size_t i : evenly_spaced(heldout_.size(), kMaxHeldout)) chosen.push_back(std::move(heldout_[i]));
  heldout_ = std::move(chosen);
}

void WarmupJob::make_trainer() {
  TrainerOptions trainer = options_.trainer;
  trainer.total_steps = options_.steps;
  trainer.threads = options_.threads;
  if (options_.draft.empty()) {
    const ModelConfig shape = draft_config(load_model_config(options_.target), options_.shape);
    trainer_ = std::make_unique<DraftTrainer>(shape, options_.seed, trainer);
  } else {
    trainer_ = std::make_unique<DraftTrainer>(options_.draft, trainer);
  }
  if (fs::exists(work_.optimizer())) {
    trainer_->load(work_.optimizer());
    observer_.on_note("going on at step " + std::to_string(trainer_->steps()));
  }
  history_ = work_.read_history();
  history_.forget_after(trainer_->steps());
}

bool WarmupJob::finished() const {
  if (options_.steps > 0) return trainer_->steps() >= options_.steps;
  return is_flat(history_.heldout, kFlatWindow);
}

// The next batch. Every record comes once per epoch, in an order addressed by (seed, epoch). The position depends only
// on the number of batches taken so far (trained on or skipped), so that an interruption changes nothing.
std::vector<ReplayRecord> WarmupJob::next_batch() const {
  const auto taken = static_cast<std::uint64_t>(trainer_->steps()) + history_.skipped.size();
  std::vector<ReplayRecord> batch;
  std::vector<std::size_t> order;
  std::uint64_t order_epoch = ~std::uint64_t{0};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(options_.batch); ++i) {
    const std::uint64_t at = taken * static_cast<std::uint64_t>(options_.batch) + i;
    const std::uint64_t epoch = at / training_.size();
    if (epoch != order_epoch) {
      order.resize(training_.size());
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t last = order.size() - 1; last > 0; --last) {
        const RandomAddress address{options_.seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(last)};
        std::swap(
            order[last],
            order[static_cast<std::size_t>(uniform(address, RandomPurpose::kDraft) * static_cast<double>(last + 1))]);
      }
      order_epoch = epoch;
    }
    batch.push_back(training_[order[at % training_.size()]]);
  }
  return batch;
}

void WarmupJob::train() {
  saved_us_ = monotonic_us();
  first_step_ = trainer_->steps();
  pace_ = Pace();
  if (history_.heldout.empty()) measure_heldout();
  std::int64_t skips_in_a_row = 0;
  while (!finished()) {
    one_step(skips_in_a_row);
    if (monotonic_us() - saved_us_ >= options_.save_every_us) save();
    report(/*always=*/false);
  }
  if (history_.heldout.back().step != trainer_->steps()) measure_heldout();
  save();
  report(/*always=*/true);
}

void WarmupJob::one_step(std::int64_t& skips_in_a_row) {
  const std::vector<ReplayRecord> batch = next_batch();
  bool stopped = false;
  const TrainStep step = trainer_->step(batch, [&] { return !(stopped = observer_.stop_requested()); });
  if (stopped) {
    save();
    interrupted("at step " + std::to_string(trainer_->steps()));
  }
  skips_in_a_row = step.skipped ? skips_in_a_row + 1 : 0;
  if (step.skipped) history_.skipped.push_back(trainer_->steps());
  if (skips_in_a_row > kMaxSkipsInARow) {
    throw Error(ErrorCode::kDataLoss, "training diverged: the loss is not finite", "lower --lr and pass --force");
  }
  if (step.skipped) return;
  const bool first = trainer_->steps() == first_step_ + 1;
  loss_ = first ? step.loss : 0.95 * loss_ + 0.05 * step.loss;
  alpha_ = first ? step.alpha_greedy : 0.95 * alpha_ + 0.05 * step.alpha_greedy;
  for (const ReplayRecord& record : batch) pace_.add(static_cast<std::int64_t>(record.tokens.size()));
  if (trainer_->steps() % kStepsBetweenHeldout == 0) measure_heldout();
}

void WarmupJob::measure_heldout() {
  const TrainStep score = trainer_->evaluate(heldout_);
  history_.heldout.push_back({trainer_->steps(), score.loss, score.alpha_greedy});
}

void WarmupJob::save() {
  work_.write_history(history_);
  trainer_->save(work_.optimizer());
  saved_us_ = monotonic_us();
}

void WarmupJob::report(bool always) {
  if (!pace_.due() && !always) return;
  WarmupProgress progress{.phase = WarmupPhase::kTraining, .done = trainer_->steps(), .total = options_.steps};
  progress.loss = loss_;
  progress.alpha = alpha_;
  progress.heldout_loss = history_.heldout.back().loss;
  progress.heldout_alpha = history_.heldout.back().alpha;
  progress.tokens_per_s = pace_.per_second();
  if (options_.steps > 0) {
    progress.seconds_left = pace_.seconds_for(static_cast<double>(options_.steps - trainer_->steps()),
                                              static_cast<double>(trainer_->steps() - first_step_));
  }
  observer_.on_progress(progress);
}

WarmupResult WarmupJob::deliver() {
  WarmupResult result;
  result.steps = trainer_->steps();
  result.answers = static_cast<std::int64_t>(training_.size());
  result.heldout_answers = static_cast<std::int64_t>(heldout_.size());
  result.loss = loss_;
  result.alpha = alpha_;
  result.heldout_loss = history_.heldout.back().loss;
  result.heldout_alpha = history_.heldout.back().alpha;
  const fs::path staged = work_.staging();
  trainer_->export_draft(staged);
  copy_tokenizer_files(options_.target, staged);
  DraftMeta meta;
  meta.heldout_alpha_before = history_.heldout.front().alpha;
  meta.heldout_alpha = result.heldout_alpha;
  meta.optimizer_steps = static_cast<std::uint64_t>(result.steps);
  meta.trained_requests = training_.size();
  meta.target_fingerprint = target_fingerprint(options_.target);
  write_warmup_meta(staged, options_, std::move(meta));
  work_.deliver(options_.out, options_.keep_work);
  return result;
}

// Locks the data directory that contains `out`, if any, so that no warm-up changes the directory of a running service.
std::optional<DataDirectoryLock> lock_data_directory_around(const fs::path& out) {
  for (fs::path folder = fs::absolute(out).lexically_normal().parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    if (fs::is_regular_file(folder / "LOCK")) return std::optional<DataDirectoryLock>(std::in_place, folder);
  }
  return std::nullopt;
}

}  // namespace

fs::path warmup_work_folder(const fs::path& out) {
  fs::path folder = out;
  if (!folder.has_filename()) folder = folder.parent_path();
  folder += ".work";
  return folder;
}

WarmupResult run_warmup(const WarmupOptions& options, WarmupObserver& observer) {
  check_warmup_options(options);
  WarmupOptions checked = options;
  if (!checked.out.has_filename()) checked.out = checked.out.parent_path();  // "drafts/sql/" means "drafts/sql"
  const auto data_directory = lock_data_directory_around(checked.out);
  return WarmupJob(checked, observer).run();
}

}  // namespace slip
