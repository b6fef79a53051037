// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer_lineage.h"

#include <sstream>

#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

constexpr const char* kMagic = "slipstream-optimizer-2";
constexpr std::uint64_t kMaxBytes = 4096;

}  // namespace

TrainerLineage read_lineage(const std::filesystem::path& file) {
  std::istringstream text(read_file(file, kMaxBytes));
  std::string magic;
  TrainerLineage lineage;
  text >> magic >> lineage.source >> lineage.version >> lineage.steps_before >> lineage.steps >> lineage.draws;
  if (!text || magic != kMagic) throw Error(ErrorCode::kDataLoss, file.string() + " is damaged");
  return lineage;
}

void write_lineage(const std::filesystem::path& file, const TrainerLineage& lineage) {
  std::ostringstream text;
  text << kMagic << ' ' << lineage.source << ' ' << lineage.version << ' ' << lineage.steps_before << ' '
       << lineage.steps << ' ' << lineage.draws << '\n';
  replace_file(file, text.str(), "optimizer.lineage");
}

}  // namespace slip
