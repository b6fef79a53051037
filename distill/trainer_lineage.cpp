// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer_lineage.h"

#include <cstddef>
#include <iomanip>
#include <limits>
#include <sstream>
#include <vector>

#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

constexpr const char* kMagic = "slipstream-optimizer-3";
constexpr const char* kMagicWithoutCurve = "slipstream-optimizer-2";
constexpr std::uint64_t kMaxBytes = 4096;
constexpr std::size_t kMostRises = 64;

void read_curve(std::istream& text, TrainerLineage& lineage) {
  double room = 0;
  std::size_t n = 0;
  text >> lineage.step_seconds >> room >> n;
  std::vector<MeasuredRise> measured(text && n <= kMostRises ? n : 0);
  for (MeasuredRise& one : measured) {
    text >> one.from_steps >> one.to_steps >> one.gain.mean >> one.gain.deviation;
  }
  if (measured.size() != n || !(lineage.step_seconds >= 0)) text.setstate(std::ios::failbit);
  lineage.curve = LearningCurve::resumed(room, measured);
}

}  // namespace

TrainerLineage read_lineage(const std::filesystem::path& file) {
  std::istringstream text(read_file(file, kMaxBytes));
  std::string magic;
  TrainerLineage lineage;
  text >> magic >> lineage.source >> lineage.version >> lineage.steps_before >> lineage.steps >> lineage.draws;
  if (text && magic == kMagic) read_curve(text, lineage);
  const bool is_known = magic == kMagic || magic == kMagicWithoutCurve;
  if (!text || !is_known) throw Error(ErrorCode::kDataLoss, file.string() + " is damaged");
  return lineage;
}

void write_lineage(const std::filesystem::path& file, const TrainerLineage& lineage) {
  std::ostringstream text;
  text << kMagic << ' ' << lineage.source << ' ' << lineage.version << ' ' << lineage.steps_before << ' '
       << lineage.steps << ' ' << lineage.draws << '\n';
  text << std::setprecision(std::numeric_limits<double>::max_digits10) << lineage.step_seconds << ' '
       << lineage.curve.room() << ' ' << lineage.curve.measured().size() << '\n';
  for (const MeasuredRise& one : lineage.curve.measured()) {
    text << one.from_steps << ' ' << one.to_steps << ' ' << one.gain.mean << ' ' << one.gain.deviation << '\n';
  }
  replace_file(file, text.str(), "optimizer.lineage");
}

}  // namespace slip
