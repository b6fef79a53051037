// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "checkpoints/draft_store.h"
#include "common/error.h"
#include "distill/canary.h"
#include "distill/course.h"
#include "distill/decision_sink.h"
#include "distill/trainer_seat.h"

namespace slip {

struct PublisherOptions {
  Dtype serve_dtype = Dtype::kBFloat16;
  PackDraft pack;              // of versions before they go live, on the publisher's thread
  std::size_t first_look = 8;  // paired requests before a trial is first looked at
};

// Carries out what the canary decided: exports candidates, publishes and rolls back, and tells the DecisionSink. The
// order of every change makes a crash between any two steps harmless: weights are durable in the store before the slot
// serves them, optimizer state of an abandoned lineage is gone before the store points elsewhere. Threads: one owner.
class Publisher {
 public:
  Publisher(PublisherOptions options, std::shared_ptr<const DraftVersion> base, DraftStore& store, TrainerSeat& seat,
            DecisionSink& decisions);

  // Finds out where the slot's live version came from and takes up the watch over it that a restart interrupted.
  void enrol(Course& course);
  // Freezes the trainer's weights as the course's candidate. Weights that are not finite end in a refusal and a fresh
  // trainer, never in a candidate.
  void export_candidate(Course& course, DraftTrainer& trainer, std::uint64_t cut_off);
  void publish(Course& course, const CanaryVerdict& verdict);
  void refuse(Course& course, const CanaryVerdict& verdict);
  void report_undecided(const Course& course, const CanaryVerdict& verdict);
  void roll_back(Course& course, const CanaryVerdict& verdict);
  // Removes what a candidate left in the staging area.
  static void drop_candidate(Course& course);

 private:
  DraftSource source_of_base() const;
  void decide(const Course& course, const std::string& kind, const CanaryVerdict& verdict, std::uint64_t version);
  void report_unpublished(Course& course, CanaryVerdict verdict, const Error& error);
  void go_live(Course& course, DraftSource next);
  DraftSource restore_or_base(Course& course);
  DraftSource restore(Course& course, const DraftSource& previous);

  PublisherOptions options_;
  std::shared_ptr<const DraftVersion> base_;
  DraftStore& store_;
  TrainerSeat& seat_;
  DecisionSink& decisions_;
};

}  // namespace slip
