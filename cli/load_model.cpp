// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include <algorithm>

#include "cli/process/usable_memory.h"
#include "common/error.h"
#include "common/log.h"

namespace slip::cli {

namespace {

// A model's tokenizer and vocabulary size.
struct Vocabulary {
  const Tokenizer& words;
  std::int32_t size;
};

// Compares entries by id and reports the first difference. Ids beyond the smaller vocabulary count as different. A
// draft folder without a tokenizer is compared by size alone.
void require_same_vocabulary(const std::filesystem::path& folder, const Vocabulary& target) {
  const std::int32_t size = load_model_config(folder).vocab_size;
  std::int32_t different = size == target.size ? -1 : std::min(size, target.size);
  if (std::filesystem::exists(folder / "tokenizer.json") || std::filesystem::exists(folder / "tokenizer.model")) {
    const std::int32_t word = Tokenizer::first_difference(*Tokenizer::load(folder), target.words);
    if (word >= 0) different = word;
  }
  if (different < 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              "draft " + folder.string() + " has another vocabulary than the target: token id " +
                  std::to_string(different) + " differs",
              "a draft must share its target's tokenizer", "draft");
}

}  // namespace

Dtype parse_dtype(const std::string& name) {
  if (name == "bfloat16") return Dtype::kBFloat16;
  if (name == "float32") return Dtype::kFloat32;
  throw Error(ErrorCode::kInvalidArgument, "dtype \"" + name + "\" is not one we serve", "use bfloat16 or float32",
              "dtype");
}

Device parse_device(const std::string& name, Dtype dtype) {
  if (name != "cpu" && name != "cuda") {
    throw Error(ErrorCode::kInvalidArgument, "device \"" + name + "\" is not one we run on", "use cpu or cuda",
                "device");
  }
  if (name == "cpu") return Device::kCpu;
  if (dtype != Dtype::kBFloat16) {
    throw Error(ErrorCode::kUnsupported, "device \"cuda\" computes in bfloat16 alone",
                "leave dtype at bfloat16, or use device cpu", "device");
  }
  return Device::kCuda;
}

std::uint64_t require_memory_for_weights(const std::filesystem::path& folder, const ModelConfig& config, Dtype dtype) {
  const std::int64_t parameters = config.parameters();
  const std::uint64_t bytes = static_cast<std::uint64_t>(parameters) * dtype_bytes(dtype);
  require_memory(
      bytes,
      folder.string() + " has " + billions_text(static_cast<double>(parameters)) + " billion parameters, which take",
      "choose a smaller model, or a machine or container with more memory", "target");
  return bytes;
}

TargetModel load_target(const std::filesystem::path& folder, Dtype dtype) {
  require_memory_for_weights(folder, load_model_config(folder), dtype);
  TargetModel target;
  target.weights = ModelWeights::load(folder, dtype);
  target.tokenizer = Tokenizer::load(folder);
  return target;
}

std::shared_ptr<const ChatTemplate> load_chat_template(const std::filesystem::path& target,
                                                       const std::filesystem::path& configured) {
  try {
    return std::make_shared<const ChatTemplate>(ChatTemplate::load(target, configured));
  } catch (const Error& error) {
    if (!configured.empty()) throw;
    log_warn("no chat completions: " + error.message() + (error.hint().empty() ? "" : "; " + error.hint()));
    return nullptr;
  }
}

void check_draft_vocabulary(const std::filesystem::path& draft, const std::filesystem::path& target) {
  const auto words = Tokenizer::load(target);
  require_same_vocabulary(draft, {*words, load_model_config(target).vocab_size});
}

std::shared_ptr<const ModelWeights> load_draft_weights(const std::filesystem::path& folder, Dtype dtype,
                                                       const TargetModel& target) {
  require_same_vocabulary(folder, {*target.tokenizer, target.weights->config.vocab_size});
  return ModelWeights::load(folder, dtype, /*check_finite=*/true);
}

}  // namespace slip::cli
