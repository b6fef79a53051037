// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "distill/topic_state.h"
#include "distill/trainer/draft_trainer.h"
#include "distill/trainer_lineage.h"

namespace slip {

struct ResidentTrainersOptions {
  TrainerOptions trainer;
  std::filesystem::path folder;                            // <data>/optimizer
  std::uint64_t memory_bytes = std::uint64_t{2048} << 20;  // limit for all resident trainers; one may always stay
  std::int64_t save_us = std::int64_t{60} * 1'000'000;     // maximum age of unsaved steps
  std::function<void()> before_write;                      // called before files are written; may be empty
};

// The trainers in memory, one per draft. Beyond `memory_bytes` the least recently used ones are saved and unloaded. A
// trainer is saved in `<folder>/<draft>.opt`, beside a `.lineage` file that names the live version at that time. State
// of another lineage, as after a change of the live version by hand, is not loaded: training then restarts from the
// live version with fresh moments. State of the live version's parent is loaded too: a crash leaves it after a
// publication and before follow(), or after follow() and before a rollback. After any crash a trainer may be up to
// `save_us` older than the live version. A failure affects its own draft only. Threads: one owner.
class ResidentTrainers {
 public:
  explicit ResidentTrainers(ResidentTrainersOptions options);
  ~ResidentTrainers();

  // The trainer of `draft`, whose live version is `live`. May save and unload others. Errors (kIo, …) concern this
  // draft only.
  DraftTrainer& take(const std::string& draft, const DraftSource& live);
  bool holds(const std::string& draft) const { return residents_.contains(draft); }
  // The draw number of the draft's next batch. It is saved with the state, so that a resumed run draws the same
  // batches.
  // REQUIRES: holds(draft).
  std::uint64_t next_draw(const std::string& draft) { return residents_.at(draft).lineage.draws++; }
  // What next_draw() will return. REQUIRES: holds(draft).
  std::uint64_t coming_draw(const std::string& draft) const { return residents_.at(draft).lineage.draws; }
  // Optimizer steps since the base draft. REQUIRES: holds(draft).
  std::uint64_t total_steps(const std::string& draft) const;
  // Records that `draft` went live as `live` instead of `before`. A trainer in memory belongs to that lineage, and so
  // does state on disk that belonged to `before`: only its lineage is written, since the state has three times the
  // draft's size or more, and publications may come every few seconds. Error{kIo}.
  void follow(const std::string& draft, const DraftSource& before, const DraftSource& live);
  // Sets the values that are saved with the state of `draft`, if that is in memory.
  void remember(const std::string& draft, const LearningCurve& curve, double step_seconds);
  // The lineage saved with the state that the next take() will load; empty: there is none.
  std::optional<TrainerLineage> saved(const std::string& draft, const DraftSource& live) const;
  // Error{kIo}: the state on disk is unchanged.
  void save(const std::string& draft);
  // Saves every trainer with unsaved steps, even if some fail. Logs once that saving fails, and once that it works
  // again.
  void save_all();
  // Saves those whose unsaved steps are older than save_us. `now_us` is monotonic.
  void save_due(std::int64_t now_us);
  // Drops the trainer and its files: the next take() starts from the live version. If the disk refuses to delete them,
  // a warning says so, and the next take() may load them.
  void forget(const std::string& draft);
  std::uint64_t bytes() const;
  bool failing() const { return save_fails_; }  // whether a save failed and its state is still unsaved

 private:
  struct Resident {
    std::unique_ptr<DraftTrainer> trainer;
    TrainerLineage lineage;
    std::uint64_t used = 0;       // number of its last take(): orders trainers by use
    std::int64_t unsaved_us = 0;  // since when steps are unsaved; 0: all are saved
    bool lineage_changed = false;
  };
  std::filesystem::path state_file(const std::string& draft) const { return options_.folder / (draft + ".opt"); }
  std::filesystem::path lineage_file(const std::string& draft) const { return options_.folder / (draft + ".lineage"); }
  Resident load(const std::string& draft, const DraftSource& live);
  std::unique_ptr<DraftTrainer> make_trainer(const DraftSource& live);
  bool take_up(const std::string& draft, const DraftSource& live, Resident& resident) const;
  static bool has_unsaved(const Resident& resident);
  void save_quietly(const std::string& draft);
  void make_room(const std::string& kept);

  ResidentTrainersOptions options_;
  std::map<std::string, Resident> residents_;
  std::shared_ptr<TrainingPasses> passes_;  // of the latest trainer: the next one shares them
  std::uint64_t n_taken_ = 0;
  bool save_fails_ = false;
};

}  // namespace slip
