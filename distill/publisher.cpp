// SPDX-License-Identifier: Apache-2.0
#include "distill/publisher.h"

#include <exception>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "text/tokenizer_paths.h"

namespace slip {

namespace {

void copy_if_there(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& name) {
  try {
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(from / name))) return;
  } catch (const std::filesystem::filesystem_error& fault) {
    throw io_error(fault);
  }
  copy_durably(from / name, to / name);
}

// The trainer itself writes only config and weights.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : kTokenizerFiles) copy_if_there(from, to, name);
}

// Adds the candidate's gain over the live version to the topic's learning curve, whatever the verdict was, and drops
// the candidate. After a crash a trainer may have fewer steps than the live version: that is no point of the curve.
void drop_candidate(TopicState& topic) {
  if (!topic.candidate) return;
  const Candidate& candidate = *topic.candidate;
  if (topic.live.optimizer_steps < candidate.optimizer_steps) {
    topic.curve.add({static_cast<double>(topic.live.optimizer_steps), static_cast<double>(candidate.optimizer_steps),
                     topic.candidate_test.own_smooth_gain()});
  }
  topic.candidate.reset();
}

// Drops the candidate for the next export. The evidence is kept, since both are exports of one trainer.
void drop_for_successor(TopicState& topic) {
  if (!topic.candidate) return;
  drop_candidate(topic);
  topic.candidate_test.begin_successor();
}

void remove_quietly(const std::filesystem::path& folder) {
  std::error_code ignored;  // the store sweeps its staging area when it opens
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

Publisher::Publisher(PublisherOptions options, std::shared_ptr<const DraftVersion> base, DraftStore& store,
                     ResidentTrainers& trainers, DecisionSink& decisions)
    : options_(std::move(options)),
      base_(std::move(base)),
      store_(store),
      trainers_(trainers),
      decisions_(decisions),
      base_source_{base_, base_->name, base_->number, store_.folder(base_->name, base_->number)} {}

void Publisher::enrol(TopicState& topic) {
  topic.candidate_test = PairedTest(options_.margin);
  const auto live = topic.live_draft->get();
  const auto meta = store_.current(topic.live_draft->name());
  const bool own = meta && live->weights != base_->weights && meta->version == live->number;
  topic.live = base_source_;
  topic.live.version = live;
  if (!own) return;
  topic.live.name = meta->draft;
  topic.live.number = meta->version;
  topic.live.folder = store_.folder(meta->draft, meta->version);
  topic.live.optimizer_steps = meta->optimizer_steps;
  topic.trained_before = meta->trained_requests;
  topic.live.parent_name = meta->parent_draft;
  topic.live.parent = meta->parent;
  if (meta->reason == "canary") topic.previous = predecessor(topic, *meta);
}

// The version that `meta` was trained from: the base draft, or one of the topic's own, which is checked, since files
// are untrusted. Empty when that one is gone, damaged or of another shape, and cannot be restored.
std::optional<DraftSource> Publisher::predecessor(const TopicState& topic, const DraftMeta& meta) const {
  DraftSource previous = base_source_;
  if (meta.parent_draft != meta.draft) return previous;
  try {
    previous.name = meta.draft;
    previous.number = meta.parent;
    previous.folder = store_.folder(meta.draft, meta.parent);
    auto weights = ModelWeights::load(previous.folder, options_.serve_dtype, /*check_finite=*/true);
    if (!weights->config.same_shape(base_->weights->config)) {
      throw Error(ErrorCode::kInvalidArgument, "it differs in shape from the base draft");
    }
    previous.version = packed({topic.live_draft->id(), meta.draft, meta.parent, 0, std::move(weights)}, options_.pack);
    for (const DraftMeta& stored : store_.versions(meta.draft)) {
      if (stored.version == meta.parent) previous.optimizer_steps = stored.optimizer_steps;
    }
    return previous;
  } catch (const Error& error) {
    log_info("learning: " + meta.draft +
             " is watched against the base draft only, its predecessor cannot be used: " + error.message());
    return std::nullopt;
  }
}

void Publisher::decide(TopicState& topic, const std::string& kind, const CanaryVerdict& verdict,
                       std::uint64_t version) {
  CanaryDecision decision;
  decision.at_us = wall_us();
  decision.topic = topic.topic;
  decision.draft = topic.live_draft->name();
  decision.live_version = topic.live.version->number;
  decision.candidate_version = version;
  decision.kind = kind;
  decision.verdict = verdict;
  decision.train_steps = topic.candidate ? topic.candidate->optimizer_steps : topic.live.optimizer_steps;
  decision.train_loss = topic.candidate ? topic.candidate->train_loss : topic.figures.loss;
  log_info("learning: " + topic.topic + " " + kind + ": " + verdict.reason);
  if (kind == "publish") ++topic.figures.published;
  if (kind == "rollback") ++topic.figures.rolled_back;
  if (kind == "refuse") {
    ++topic.figures.refused;
    topic.figures.last_refusal = verdict.reason;
  }
  decisions_.on_decision(decision);
}

bool Publisher::export_candidate(TopicState& topic, DraftTrainer& trainer, std::uint64_t cut_off) {
  if (!may_go_on()) return false;
  const std::string& draft = topic.live_draft->name();
  Candidate candidate;
  candidate.cut_off = cut_off;
  candidate.optimizer_steps = trainers_.total_steps(draft);
  candidate.trained_requests = topic.trained_before + topic.answers_seen();
  candidate.train_loss = topic.figures.loss;
  try {
    candidate.exported = std::make_shared<const DraftExport>(trainer.exported());
    if (!may_go_on()) return false;
    candidate.weights = candidate.exported->weights(options_.serve_dtype);
  } catch (const Error& error) {
    drop_for_successor(topic);
    CanaryVerdict verdict;
    verdict.outcome = CanaryOutcome::kRefuse;
    verdict.reason = "not exported: " + error.message();
    decide(topic, "refuse", verdict, 0);
    if (error.code() == ErrorCode::kDataLoss) restart_trainer(topic);  // weights not finite: training cannot recover
    return true;
  }
  drop_for_successor(topic);
  topic.candidate = std::move(candidate);
  return true;
}

// Restarts training from the live version. The evidence is dropped, since it was about the old trainer. The learning
// curve is kept until the new trainer is measured, since the cause of one failure is likely to affect the next trainer.
void Publisher::restart_trainer(TopicState& topic) {
  trainers_.forget(topic.live_draft->name());
  topic.candidate_test.begin_anew();
  topic.steps_since_export = 0;
  topic.export_waits = false;
  ++topic.figures.trainer_restarts;
}

// `measured`: what is known of the version's acceptance on recent text.
void Publisher::go_live(TopicState& topic, DraftSource next, const AcceptanceScore& measured) {
  topic.live = std::move(next);
  for (FailureSpell* spell : {&topic.training_failures, &topic.scoring_failures}) {
    if (spell->given_up()) *spell = {};
  }
  topic.live_draft->set(topic.live.version);
  topic.figures.live_version = topic.live.version->number;
  topic.recent_live = measured;
  topic.candidate_test.begin_against_new_live();
  topic.against_previous = LiveWatch();
  topic.against_base = LiveWatch();
}

void Publisher::publish(TopicState& topic, const CanaryVerdict& verdict) {
  Candidate& candidate = *topic.candidate;
  const DraftSource before = topic.live;
  DraftMeta meta;
  meta.draft = topic.live_draft->name();
  meta.topic = topic.topic;
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
    if (options_.before_write) options_.before_write();
    meta = write(meta, [&](const std::filesystem::path& folder) {
      candidate.exported->write(folder);
      copy_tokenizer(before.folder, folder);
    });
  } catch (const Error& error) {
    return report_unpublished(topic, verdict, error);
  }
  const DraftVersion version{topic.live_draft->id(), meta.draft,      meta.version, meta.parent,
                             candidate.weights,      std::move(image)};
  decide(topic, "publish", verdict, meta.version);
  const AcceptanceScore measured = candidate.own;
  drop_candidate(topic);  // the store owns its files now
  topic.recent_previous = topic.recent_live;
  go_live(topic,
          {std::make_shared<DraftVersion>(version), meta.draft, meta.version, store_.folder(meta.draft, meta.version),
           meta.optimizer_steps, before.name, before.number},
          measured);
  keep_lineage(topic, before, topic.live);  // soon: a crash before it leaves the state under the parent
  decisions_.on_published(meta);
  topic.previous = before;
  topic.figures.realised_gain += verdict.gain;
  apply_retention(meta, before.name == meta.draft ? before.number : 0);
}

// `fill` writes the version's files into the folder. If anything fails, the folder is removed: it could fill the disk.
DraftMeta Publisher::write(const DraftMeta& meta, const std::function<void(const std::filesystem::path&)>& fill) {
  const auto staged = store_.staging_folder(meta.draft);
  try {
    fill(staged);
    return store_.publish(staged, meta);
  } catch (const std::exception&) {
    remove_quietly(staged);
    throw;
  }
}

// Deletes the weights of old versions. If the disk refuses, they stay until a later publication.
void Publisher::apply_retention(const DraftMeta& live, std::uint64_t last_known_good) {
  try {
    store_.apply_retention(live.draft, live.version, last_known_good);
  } catch (const Error& error) {
    log_warn("learning: old versions of " + live.draft + " are not deleted: " + error.message());
  }
}

// Hands the optimizer state of `before` on to the version that replaces it. If that fails, training may go on with
// fresh moments: after a crash, or if the trainer is on disk only.
void Publisher::keep_lineage(const TopicState& topic, const DraftSource& before, const DraftSource& next) {
  const std::string& draft = topic.live_draft->name();
  try {
    trainers_.follow(draft, before, next);
  } catch (const Error& error) {
    log_warn("learning: the lineage of " + draft + "'s optimizer state is not saved: " + error.message());
  }
}

// Reports a candidate that could not be published, for example on a full disk. The trainer keeps its weights, and the
// next candidate tries again, with evidence of its own.
void Publisher::report_unpublished(TopicState& topic, CanaryVerdict verdict, const Error& error) {
  verdict.outcome = CanaryOutcome::kRefuse;
  verdict.reason = "better, but not published: " + error.message();
  decide(topic, "refuse", verdict, 0);
  drop_candidate(topic);
  topic.candidate_test.begin_successor();
}

void Publisher::refuse(TopicState& topic, const CanaryVerdict& verdict) {
  decide(topic, "refuse", verdict, 0);
  drop_candidate(topic);
  topic.candidate_test.begin_anew();
  if (verdict.harmful) restart_trainer(topic);
}

// Makes `previous` the store's current version. The base draft is no version of the topic's draft, so its weights are
// published as a new version.
DraftSource Publisher::restore(TopicState& topic, const DraftSource& previous) {
  const std::string& draft = topic.live_draft->name();
  if (previous.name == draft) {
    store_.set_current(draft, previous.number);
    return previous;
  }
  DraftMeta meta;
  meta.draft = draft;
  meta.topic = topic.topic;
  meta.parent = previous.number;
  meta.parent_draft = previous.name;
  meta.reason = "rollback";
  meta = write(meta, [&](const std::filesystem::path& folder) {
    copy_tokenizer(previous.folder, folder);
    for (const char* name : {"config.json", "model.safetensors"}) copy_if_there(previous.folder, folder, name);
  });
  decisions_.on_published(meta);
  DraftSource restored = previous;
  restored.name = draft;
  restored.number = meta.version;
  restored.parent_name = meta.parent_draft;
  restored.parent = meta.parent;
  restored.folder = store_.folder(draft, meta.version);
  DraftVersion version = *previous.version;
  version.draft = topic.live_draft->id();
  version.name = draft;
  version.number = meta.version;
  version.parent = meta.parent;
  restored.version = std::make_shared<const DraftVersion>(std::move(version));
  return restored;
}

// Restores the predecessor, or the base draft if the predecessor was retired or damaged meanwhile. If only the disk
// refuses, the predecessor serves from memory.
DraftSource Publisher::restore_or_base(TopicState& topic, const DraftSource& previous) {
  try {
    return restore(topic, previous);
  } catch (const Error& error) {
    const bool gone = error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kDataLoss;
    if (gone && previous.name != base_->name) {
      log_warn("learning: " + topic.topic + " goes back to the base draft: " + error.message());
      return restore_or_base(topic, base_source_);
    }
    log_warn("learning: " + topic.topic + " serves the older draft, but a restart will not: " + error.message());
    return previous;
  }
}

void Publisher::roll_back(TopicState& topic, const CanaryVerdict& verdict, bool to_base) {
  drop_candidate(topic);  // it descends from the bad version
  if (verdict.harmful) restart_trainer(topic);
  const DraftSource bad = topic.live;
  const DraftSource older = to_base || !topic.previous ? base_source_ : *topic.previous;
  // A parent gets the state before the store changes: after a crash in between, the live version takes up the state of
  // its parent, and of no other version.
  const bool is_parent = older.name == bad.parent_name && older.number == bad.parent;
  if (!verdict.harmful && is_parent) keep_lineage(topic, bad, older);
  DraftSource restored = restore_or_base(topic, older);
  decide(topic, "rollback", verdict, restored.version->number);
  // The base draft also serves if the predecessor is gone.
  const AcceptanceScore measured =
      restored.version->weights == base_->weights ? topic.recent_base : topic.recent_previous;
  topic.previous.reset();
  go_live(topic, std::move(restored), measured);
  // The base draft's weights are a new version.
  if (!verdict.harmful) keep_lineage(topic, is_parent ? older : bad, topic.live);
}

void Publisher::abandon(TopicState& topic) {
  drop_candidate(topic);
  restart_trainer(topic);
}

}  // namespace slip
