// SPDX-License-Identifier: Apache-2.0
#include "distill/publisher.h"

#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/model/tokenizer_paths.h"

namespace slip {

namespace {

void copy_if_there(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& name) {
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(from / name))) return;
  std::filesystem::copy_file(from / name, to / name, std::filesystem::copy_options::overwrite_existing);
}

// The trainer writes only config and weights.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : kTokenizerFiles) copy_if_there(from, to, name);
}

void remove_quietly(const std::filesystem::path& folder) {
  std::error_code ignored;  // the store sweeps its staging area when it opens
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

Publisher::Publisher(PublisherOptions options, std::shared_ptr<const DraftVersion> base, DraftStore& store,
                     TrainerSeat& seat, DecisionSink& decisions)
    : options_(std::move(options)), base_(std::move(base)), store_(store), seat_(seat), decisions_(decisions) {}

DraftSource Publisher::source_of_base() const {
  DraftSource source;
  source.version = base_;
  source.name = base_->name;
  source.number = base_->number;
  source.folder = store_.folder(base_->name, base_->number);
  return source;
}

void Publisher::enrol(Course& course) {
  const auto live = course.slot->get();
  const auto meta = store_.current(course.slot->name());
  const bool own = meta && live->weights != base_->weights && meta->version == live->number;
  course.live = source_of_base();
  course.live.version = live;
  if (!own) return;
  course.live.name = meta->draft;
  course.live.number = meta->version;
  course.live.folder = store_.folder(meta->draft, meta->version);
  course.live.optimizer_steps = meta->optimizer_steps;
  course.trained_before = meta->trained_requests;
  if (meta->reason != "canary") return;
  DraftSource previous = source_of_base();  // of a draft's first version
  try {
    if (meta->version > 1) {
      previous.name = meta->draft;
      previous.number = meta->parent;
      previous.folder = store_.folder(meta->draft, meta->parent);
      auto weights = ModelWeights::load(previous.folder, options_.serve_dtype, /*check_finite=*/true);
      previous.version = packed({course.slot->id(), meta->draft, meta->parent, 0, std::move(weights)}, options_.pack);
    }
    course.watch = Watch{std::move(previous), Trial(options_.first_look)};
  } catch (const Error& error) {
    log_info("learning: " + meta->draft +
             " is not watched, there is no way back to its predecessor: " + error.message());
  }
}

void Publisher::decide(const Course& course, const std::string& kind, const CanaryVerdict& verdict,
                       std::uint64_t version) {
  CanaryDecision decision;
  decision.at_us = wall_us();
  decision.topic = course.topic;
  decision.draft = course.slot->name();
  decision.live_version = course.live.version->number;
  decision.candidate_version = version;
  decision.kind = kind;
  decision.verdict = verdict;
  decision.train_steps = course.candidate ? course.candidate->optimizer_steps : course.live.optimizer_steps;
  decision.train_loss = course.candidate ? course.candidate->train_loss : course.loss;
  log_info("learning: " + course.topic + " " + kind + ": " + verdict.reason);
  decisions_.on_decision(decision);
}

void Publisher::export_candidate(Course& course, DraftTrainer& trainer, std::uint64_t cut_off) {
  drop_candidate(course);
  const auto staged = store_.staging_folder(course.slot->name());
  Candidate candidate{.trial = Trial(options_.first_look)};
  candidate.staged = staged;
  candidate.cut_off = cut_off;
  candidate.optimizer_steps = seat_.total_steps();
  candidate.trained_requests = course.trained_before + course.requests_seen;
  candidate.train_loss = course.loss;
  try {
    trainer.export_draft(staged);
    copy_tokenizer(course.live.folder, staged);
    candidate.weights = ModelWeights::load(staged, options_.serve_dtype, /*check_finite=*/true);
  } catch (const Error& error) {
    remove_quietly(staged);
    CanaryVerdict verdict;
    verdict.outcome = CanaryOutcome::kRefuse;
    verdict.reason = "not exported: " + error.message();
    decide(course, "refuse", verdict, 0);
    if (error.code() == ErrorCode::kDataLoss) seat_.forget(course.slot->name());  // not finite: no way back from there
    return;
  }
  course.candidate = std::move(candidate);
}

void Publisher::go_live(Course& course, DraftSource next) {
  course.live = std::move(next);
  course.slot->set(course.live.version);
}

void Publisher::publish(Course& course, const CanaryVerdict& verdict) {
  Candidate& candidate = *course.candidate;
  const DraftSource before = course.live;
  DraftMeta meta;
  meta.draft = course.slot->name();
  meta.topic = course.topic;
  meta.parent = before.number;
  meta.parent_draft = before.name;
  meta.reason = "canary";
  meta.optimizer_steps = candidate.optimizer_steps;
  meta.trained_requests = candidate.trained_requests;
  meta.heldout_alpha_before = verdict.alpha_live;
  meta.heldout_alpha = verdict.alpha_candidate;
  meta.p_value = verdict.p_value;
  std::shared_ptr<const DeviceImage> image;
  try {
    if (options_.pack) image = options_.pack(*candidate.weights);
    meta = store_.publish(candidate.staged, meta);
  } catch (const Error& error) {
    return report_unpublished(course, verdict, error);
  }
  const DraftVersion version{course.slot->id(), meta.draft,        meta.version,
                             meta.parent,       candidate.weights, std::move(image)};
  decide(course, "publish", verdict, meta.version);
  go_live(course, {std::make_shared<DraftVersion>(version), meta.draft, meta.version,
                   store_.folder(meta.draft, meta.version), meta.optimizer_steps});
  decisions_.on_published(meta);
  course.candidate.reset();  // its folder is the store's now
  course.watch = Watch{before, Trial(options_.first_look)};
  seat_.follow(course.live);
  seat_.save();
  store_.apply_retention(meta.draft, meta.version, before.name == meta.draft ? before.number : 0);
}

// A full disk, say. The trainer keeps what it learned; the next candidate tries again.
void Publisher::report_unpublished(Course& course, CanaryVerdict verdict, const Error& error) {
  verdict.outcome = CanaryOutcome::kRefuse;
  verdict.reason = "better, but not published: " + error.message();
  decide(course, "refuse", verdict, 0);
  drop_candidate(course);
}

void Publisher::refuse(Course& course, const CanaryVerdict& verdict) {
  decide(course, "refuse", verdict, 0);
  drop_candidate(course);
  // Worse beyond doubt: where the trainer went is no place to go on from.
  if (verdict.gain_high < 0) seat_.forget(course.slot->name());
}

void Publisher::report_undecided(const Course& course, const CanaryVerdict& verdict) {
  decide(course, "undecided", verdict, 0);
}

// The base draft is not a version of the topic's draft: going back to it means publishing its weights as one.
DraftSource Publisher::restore(Course& course, const DraftSource& previous) {
  const std::string& draft = course.slot->name();
  if (previous.name == draft) {
    store_.set_current(draft, previous.number);
    return previous;
  }
  const auto staged = store_.staging_folder(draft);
  copy_tokenizer(previous.folder, staged);
  for (const char* name : {"config.json", "model.safetensors"}) copy_if_there(previous.folder, staged, name);
  DraftMeta meta;
  meta.draft = draft;
  meta.topic = course.topic;
  meta.parent = previous.number;
  meta.parent_draft = previous.name;
  meta.reason = "rollback";
  meta = store_.publish(staged, meta);
  decisions_.on_published(meta);
  DraftSource restored = previous;
  restored.name = draft;
  restored.number = meta.version;
  restored.folder = store_.folder(draft, meta.version);
  DraftVersion version = *previous.version;
  version.draft = course.slot->id();
  version.name = draft;
  version.number = meta.version;
  version.parent = meta.parent;
  restored.version = std::make_shared<const DraftVersion>(std::move(version));
  return restored;
}

// A predecessor that was retired or damaged meanwhile is no reason to keep what is worse.
DraftSource Publisher::restore_or_base(Course& course) {
  try {
    return restore(course, course.watch->previous);
  } catch (const Error& error) {
    log_warn("learning: " + course.topic + " goes back to the base draft: " + error.message());
    return restore(course, source_of_base());
  }
}

void Publisher::roll_back(Course& course, const CanaryVerdict& verdict) {
  drop_candidate(course);  // a child of the bad version
  seat_.forget(course.slot->name());
  DraftSource restored = restore_or_base(course);
  decide(course, "rollback", verdict, restored.version->number);
  go_live(course, std::move(restored));
  course.watch.reset();
  course.steps_since_export = 0;
}

void Publisher::drop_candidate(Course& course) {
  if (!course.candidate) return;
  remove_quietly(course.candidate->staged);
  course.candidate.reset();
}

}  // namespace slip
