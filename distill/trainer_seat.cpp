// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer_seat.h"

#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/log.h"

namespace slip {

namespace {

constexpr const char* kLineageMagic = "slipstream-optimizer-1";
constexpr std::uint64_t kMaxLineageBytes = 4096;

}  // namespace

TrainerSeat::TrainerSeat(TrainerOptions options, std::filesystem::path folder)
    : options_(std::move(options)), folder_(std::move(folder)) {
  ensure_private_directory(folder_);
}

TrainerSeat::~TrainerSeat() = default;

DraftTrainer& TrainerSeat::take(const std::string& draft, const DraftSource& live) {
  if (trainer_ && draft_ == draft) return *trainer_;
  if (trainer_) save();
  trainer_.reset();  // before the next one: there is room for one
  trainer_ = std::make_unique<DraftTrainer>(live.folder, options_);
  draft_ = draft;
  lineage_ = {live.name, live.number, live.optimizer_steps, 0};
  if (!take_up(draft, live)) trainer_ = std::make_unique<DraftTrainer>(live.folder, options_);
  return *trainer_;
}

// False when there is no state of this lineage; the trainer may have been written over then.
bool TrainerSeat::take_up(const std::string& draft, const DraftSource& live) {
  if (!std::filesystem::exists(state_file(draft)) || !std::filesystem::exists(lineage_file(draft))) return true;
  try {
    std::istringstream text(read_file(lineage_file(draft), kMaxLineageBytes));
    std::string magic;
    Lineage saved;
    text >> magic >> saved.source >> saved.version >> saved.steps_before >> saved.steps;
    const bool same = text && magic == kLineageMagic && saved.source == live.name && saved.version == live.number;
    if (!same) return true;
    trainer_->load(state_file(draft));
    if (static_cast<std::uint64_t>(trainer_->steps()) != saved.steps) return false;
    lineage_ = saved;
    return true;
  } catch (const Error& error) {
    log_warn("learning: optimizer state of " + draft + " is left aside: " + error.message());
    return false;
  }
}

std::uint64_t TrainerSeat::total_steps() const {
  SLIP_CHECK(trainer_ != nullptr, "somebody sits in the seat");
  return lineage_.steps_before + static_cast<std::uint64_t>(trainer_->steps());
}

void TrainerSeat::follow(const DraftSource& live) {
  lineage_.source = live.name;
  lineage_.version = live.number;
}

// State first, lineage second: a crash between leaves a pair whose steps disagree, which take_up refuses.
void TrainerSeat::save() {
  if (!trainer_) return;
  trainer_->save(state_file(draft_));
  lineage_.steps = static_cast<std::uint64_t>(trainer_->steps());
  std::ostringstream text;
  text << kLineageMagic << ' ' << lineage_.source << ' ' << lineage_.version << ' ' << lineage_.steps_before << ' '
       << lineage_.steps << '\n';
  replace_file(lineage_file(draft_), text.str(), "optimizer.lineage");
}

void TrainerSeat::forget(const std::string& draft) {
  if (draft_ == draft) {
    trainer_.reset();
    draft_.clear();
  }
  std::filesystem::remove(lineage_file(draft));
  std::filesystem::remove(state_file(draft));
}

}  // namespace slip
