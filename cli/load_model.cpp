// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include <algorithm>

#include "common/error.h"

namespace slip::cli {

namespace {

// The first id whose entry differs, −1 if none. Ids beyond the smaller of two models differ by existing.
std::int32_t first_differing_id(const std::filesystem::path& folder, const ModelConfig& draft,
                                const TargetModel& target) {
  if (std::filesystem::exists(folder / "tokenizer.json") || std::filesystem::exists(folder / "tokenizer.model")) {
    const auto words = Tokenizer::load(folder);
    const std::int32_t different = Tokenizer::first_difference(*words, *target.tokenizer);
    if (different >= 0) return different;
  }
  const std::int32_t wanted = target.weights->config.vocab_size;
  return draft.vocab_size == wanted ? -1 : std::min(draft.vocab_size, wanted);
}

}  // namespace

Dtype parse_dtype(const std::string& name) {
  if (name == "bfloat16") return Dtype::kBFloat16;
  if (name == "float32") return Dtype::kFloat32;
  throw Error(ErrorCode::kInvalidArgument, "dtype \"" + name + "\" is not one we serve", "use bfloat16 or float32",
              "dtype");
}

TargetModel load_target(const std::filesystem::path& folder, Dtype dtype) {
  TargetModel target;
  target.weights = ModelWeights::load(folder, dtype);
  target.tokenizer = Tokenizer::load(folder);
  return target;
}

std::shared_ptr<const ModelWeights> load_draft_weights(const std::filesystem::path& folder, Dtype dtype,
                                                       const TargetModel& target) {
  const std::int32_t different = first_differing_id(folder, load_model_config(folder), target);
  if (different >= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "draft " + folder.string() + " has another vocabulary than the target: token id " +
                    std::to_string(different) + " differs",
                "a draft must share its target's tokenizer", "draft");
  }
  return ModelWeights::load(folder, dtype, /*check_finite=*/true);
}

}  // namespace slip::cli
