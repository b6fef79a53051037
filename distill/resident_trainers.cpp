// SPDX-License-Identifier: Apache-2.0
#include "distill/resident_trainers.h"

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "common/log.h"

namespace slip {
namespace {

// Also if the state is of the parent: a crash leaves it so after a publication and before follow(), or after follow()
// and before a rollback. It may lack the live version's last steps, as after any crash.
bool belongs_to(const TrainerLineage& lineage, const DraftSource& live) {
  return (lineage.source == live.name && lineage.version == live.number) ||
         (lineage.source == live.parent_name && lineage.version == live.parent);
}

void hand_over(TrainerLineage& lineage, const DraftSource& live) {
  lineage.source = live.name;
  lineage.version = live.number;
}

void remove_or_warn(const std::filesystem::path& file) {
  std::error_code failed;
  std::filesystem::remove(file, failed);
  if (failed) log_warn("learning: " + file.string() + " cannot be deleted: " + failed.message());
}

}  // namespace

ResidentTrainers::ResidentTrainers(ResidentTrainersOptions options) : options_(std::move(options)) {
  ensure_private_directory(options_.folder);
}

ResidentTrainers::~ResidentTrainers() = default;

DraftTrainer& ResidentTrainers::take(const std::string& draft, const DraftSource& live) {
  auto found = residents_.find(draft);
  if (found == residents_.end()) {
    found = residents_.emplace(draft, load(draft, live)).first;
    make_room(draft);
  }
  found->second.used = ++n_taken_;
  return *found->second.trainer;
}

std::unique_ptr<DraftTrainer> ResidentTrainers::make_trainer(const DraftSource& live) {
  auto trainer = std::make_unique<DraftTrainer>(live.folder, options_.trainer, passes_);
  passes_ = trainer->passes();
  return trainer;
}

ResidentTrainers::Resident ResidentTrainers::load(const std::string& draft, const DraftSource& live) {
  Resident resident;
  resident.trainer = make_trainer(live);
  resident.lineage = {live.name, live.number, live.optimizer_steps, 0, 0};
  if (!take_up(draft, live, resident)) {
    remove_or_warn(lineage_file(draft));  // a crash within the next save would leave it beside another trainer's state
    resident.trainer = make_trainer(live);
    resident.lineage = {live.name, live.number, live.optimizer_steps, 0, 0};
  }
  return resident;
}

// Loads the saved state if its lineage fits. False: there is state that must not be used, perhaps in the trainer too.
bool ResidentTrainers::take_up(const std::string& draft, const DraftSource& live, Resident& resident) const {
  const bool has_state = std::filesystem::exists(state_file(draft));
  const bool has_lineage = std::filesystem::exists(lineage_file(draft));
  if (!has_state && !has_lineage) {  // as before a first save, or after a restart of the trainer
    if (live.optimizer_steps > 0) {
      log_info("learning: " + draft + " trains on with new optimizer state: " + state_file(draft).string() +
               " is not there");
    }
    return true;
  }
  if (!has_state || !has_lineage) {  // deleted, or a crash fell between the two files of a first save
    log_warn("learning: optimizer state of " + draft +
             " is left aside: " + (has_state ? lineage_file(draft) : state_file(draft)).string() + " is missing");
    return false;
  }
  try {
    TrainerLineage saved = read_lineage(lineage_file(draft));
    if (!belongs_to(saved, live)) {
      log_warn("learning: optimizer state of " + draft + " is left aside: it is of " + saved.source + " version " +
               std::to_string(saved.version) + ", and " + live.name + " version " + std::to_string(live.number) +
               " is live");
      return false;
    }
    resident.trainer->load(state_file(draft));
    const auto steps = static_cast<std::uint64_t>(resident.trainer->steps());
    if (steps < saved.steps) return false;
    saved.draws += steps - saved.steps;  // a newer state, as save() leaves it at a crash: each step drew a batch
    hand_over(saved, live);
    resident.lineage = saved;
    return true;
  } catch (const Error& error) {
    log_warn("learning: optimizer state of " + draft + " is left aside: " + error.message());
    return false;
  }
}

// Unloads the least recently used trainers, except `kept`. A trainer that cannot be saved loses its steps since its
// last save, so that memory stays bounded and the topic that needs the memory does not fail.
void ResidentTrainers::make_room(const std::string& kept) {
  while (residents_.size() > 1 && bytes() > options_.memory_bytes) {
    auto oldest = residents_.end();
    for (auto it = residents_.begin(); it != residents_.end(); ++it) {
      if (it->first != kept && (oldest == residents_.end() || it->second.used < oldest->second.used)) oldest = it;
    }
    if (oldest == residents_.end()) return;
    save_quietly(oldest->first);
    residents_.erase(oldest);
  }
}

std::uint64_t ResidentTrainers::total_steps(const std::string& draft) const {
  const Resident& resident = residents_.at(draft);
  return resident.lineage.steps_before + static_cast<std::uint64_t>(resident.trainer->steps());
}

void ResidentTrainers::follow(const std::string& draft, const DraftSource& before, const DraftSource& live) {
  const auto found = residents_.find(draft);
  if (found != residents_.end()) {
    hand_over(found->second.lineage, live);
    found->second.lineage_changed = true;
  }
  auto on_disk = saved(draft, before);
  if (!on_disk) return;
  hand_over(*on_disk, live);
  if (options_.before_write) options_.before_write();
  write_lineage(lineage_file(draft), *on_disk);
}

void ResidentTrainers::remember(const std::string& draft, const LearningCurve& curve, double step_seconds) {
  const auto found = residents_.find(draft);
  if (found == residents_.end()) return;
  TrainerLineage& lineage = found->second.lineage;
  found->second.lineage_changed |= !(lineage.curve == curve);
  lineage.curve = curve;
  lineage.step_seconds = step_seconds;
}

std::optional<TrainerLineage> ResidentTrainers::saved(const std::string& draft, const DraftSource& live) const {
  if (!std::filesystem::exists(state_file(draft)) || !std::filesystem::exists(lineage_file(draft))) return std::nullopt;
  try {
    TrainerLineage lineage = read_lineage(lineage_file(draft));
    return belongs_to(lineage, live) ? std::optional(std::move(lineage)) : std::nullopt;
  } catch (const Error&) {  // take() says so
    return std::nullopt;
  }
}

bool ResidentTrainers::has_unsaved(const Resident& resident) {
  return resident.lineage_changed || static_cast<std::uint64_t>(resident.trainer->steps()) != resident.lineage.steps;
}

// Writes the state first and the lineage second: a crash in between leaves a state newer than its lineage, which
// take_up() accepts.
void ResidentTrainers::save(const std::string& draft) {
  const auto found = residents_.find(draft);
  if (found == residents_.end() || !has_unsaved(found->second)) return;
  if (options_.before_write) options_.before_write();
  Resident& resident = found->second;
  resident.trainer->save(state_file(draft));
  TrainerLineage saved = resident.lineage;
  saved.steps = static_cast<std::uint64_t>(resident.trainer->steps());
  write_lineage(lineage_file(draft), saved);
  resident.lineage = saved;
  resident.lineage_changed = false;
  resident.unsaved_us = 0;
}

void ResidentTrainers::save_quietly(const std::string& draft) {
  if (!has_unsaved(residents_.at(draft))) return;
  try {
    save(draft);
    if (std::exchange(save_fails_, false)) log_info("learning: optimizer states are saved again");
  } catch (const Error& error) {
    if (std::exchange(save_fails_, true)) return;
    log_warn("learning: the optimizer state of " + draft + " is not saved: " + error.message());
  }
}

void ResidentTrainers::save_all() {
  for (const auto& [draft, resident] : residents_) save_quietly(draft);
}

void ResidentTrainers::save_due(std::int64_t now_us) {
  bool any_unsaved = false;
  for (auto& [draft, resident] : residents_) {
    if (!has_unsaved(resident)) continue;
    any_unsaved = true;
    if (resident.unsaved_us == 0) resident.unsaved_us = now_us;
    if (now_us - resident.unsaved_us < options_.save_us) continue;
    resident.unsaved_us = now_us;  // if saving fails, it is retried after save_us
    save_quietly(draft);
  }
  if (!any_unsaved && std::exchange(save_fails_, false)) log_info("learning: no optimizer state waits to be saved");
}

void ResidentTrainers::forget(const std::string& draft) {
  residents_.erase(draft);
  for (const auto& file : {lineage_file(draft), state_file(draft)}) remove_or_warn(file);
}

std::uint64_t ResidentTrainers::bytes() const {
  std::set<const TrainingPasses*> passes;  // most trainers share theirs
  if (passes_ != nullptr) passes.insert(passes_.get());
  std::uint64_t sum = 0;
  for (const auto& [draft, resident] : residents_) {
    passes.insert(resident.trainer->passes().get());
    sum += resident.trainer->bytes();
  }
  for (const TrainingPasses* one : passes) sum += one->bytes();
  return sum;
}

}  // namespace slip
