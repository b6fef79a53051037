// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "distill/course.h"
#include "distill/draft_trainer.h"

namespace slip {

// The one optimizer that is in memory; the others rest in `<folder>/<draft>.opt`, each beside a `.lineage` that names
// the live version it was saved under. State of another lineage (a crash between publish and save, a rollback) is not
// taken up again: training then restarts from the live version with fresh moments. Threads: one owner.
class TrainerSeat {
 public:
  TrainerSeat(TrainerOptions options, std::filesystem::path folder);
  ~TrainerSeat();

  // The trainer of `draft`, whose live version is `live`; saves the one that sat here before. Error{kIo, …}.
  DraftTrainer& take(const std::string& draft, const DraftSource& live);
  bool holds(const std::string& draft) const { return trainer_ != nullptr && draft_ == draft; }
  // Optimizer steps since the base draft of the trainer in the seat.
  std::uint64_t total_steps() const;
  // The resident trainer's draft went live as `version`: its state continues that lineage.
  void follow(const DraftSource& live);
  void save();
  // Drops the trainer and what is on disk: the next take() starts from the live version.
  void forget(const std::string& draft);

 private:
  struct Lineage {
    std::string source;
    std::uint64_t version = 0;
    std::uint64_t steps_before = 0;  // of the versions it started from
    std::uint64_t steps = 0;         // its own when saved
  };
  std::filesystem::path state_file(const std::string& draft) const { return folder_ / (draft + ".opt"); }
  std::filesystem::path lineage_file(const std::string& draft) const { return folder_ / (draft + ".lineage"); }
  bool take_up(const std::string& draft, const DraftSource& live);

  TrainerOptions options_;
  std::filesystem::path folder_;
  std::string draft_;
  std::unique_ptr<DraftTrainer> trainer_;
  Lineage lineage_;
};

}  // namespace slip
