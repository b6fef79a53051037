// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "checkpoints/draft_store.h"
#include "common/error.h"
#include "distill/canary/canary.h"
#include "distill/decision_sink.h"
#include "distill/resident_trainers.h"
#include "distill/topic_state.h"

namespace slip {

struct PublisherOptions {
  Dtype serve_dtype = Dtype::kBFloat16;
  PackDraft pack;                      // packs versions before they go live; on the publisher's thread
  double margin = 0;                   // CanaryOptions::margin, for new tests
  std::function<void()> before_write;  // called before a candidate's files are written; may be empty
  std::function<bool()> go_on;         // called between the parts of an export; false abandons it; may be empty
};

// Carries out the canary's decisions: exports candidates, publishes and rolls back, and tells the DecisionSink. The
// order of changes makes a crash between any two of them harmless. Weights are durable in the store before the live
// draft serves them. The optimizer state of a trainer that is given up is deleted before the store's current version
// changes. A disk error while a candidate is published becomes a refusal. An export writes no file. Threads: one owner.
class Publisher {
 public:
  Publisher(PublisherOptions options, std::shared_ptr<const DraftVersion> base, DraftStore& store,
            ResidentTrainers& trainers, DecisionSink& decisions);

  // At start: finds the live version in the store, and its predecessor, so that a version can still be rolled back.
  void enrol(TopicState& topic);
  // Freezes the trainer's weights as the topic's candidate, which replaces a waiting one. `cut_off`: the newest record
  // sequence that training may have drawn. If a weight is not finite, the candidate is refused and the trainer
  // restarted. False: options.go_on abandoned it, and nothing was changed.
  bool export_candidate(TopicState& topic, DraftTrainer& trainer, std::uint64_t cut_off);
  // Writes the candidate to the store, then makes it the live version. If the disk refuses, the candidate is dropped
  // and its trainer goes on. REQUIRES: a candidate.
  void publish(TopicState& topic, const CanaryVerdict& verdict);
  // Drops the candidate. If it was clearly worse than the live version, its trainer restarts from that version.
  void refuse(TopicState& topic, const CanaryVerdict& verdict);
  // Returns to the predecessor, or to the base draft. The older weights are served at once even if the disk refuses the
  // change; a restart then serves and watches the bad version again. `verdict` gives the whole reason.
  void roll_back(TopicState& topic, const CanaryVerdict& verdict, bool to_base);
  // Drops the candidate and restarts the trainer, after a failure that may have damaged it.
  void abandon(TopicState& topic);

 private:
  std::optional<DraftSource> predecessor(const TopicState& topic, const DraftMeta& meta) const;
  bool may_go_on() const { return !options_.go_on || options_.go_on(); }
  void restart_trainer(TopicState& topic);
  DraftMeta write(const DraftMeta& meta, const std::function<void(const std::filesystem::path&)>& fill);
  void apply_retention(const DraftMeta& live, std::uint64_t last_known_good);
  void keep_lineage(const TopicState& topic, const DraftSource& before, const DraftSource& next);
  void decide(TopicState& topic, const std::string& kind, const CanaryVerdict& verdict, std::uint64_t version);
  void report_unpublished(TopicState& topic, CanaryVerdict verdict, const Error& error);
  void go_live(TopicState& topic, DraftSource next, const AcceptanceScore& measured);
  DraftSource restore_or_base(TopicState& topic, const DraftSource& previous);
  DraftSource restore(TopicState& topic, const DraftSource& previous);

  PublisherOptions options_;
  std::shared_ptr<const DraftVersion> base_;
  DraftStore& store_;
  ResidentTrainers& trainers_;
  DecisionSink& decisions_;
  DraftSource base_source_;
};

}  // namespace slip
