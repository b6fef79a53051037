// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_work.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/store_folder.h"
#include "checkpoints/strict_json.h"
#include "checkpoints/weight_files.h"
#include "common/error.h"
#include "common/file.h"
#include "engine/models/fingerprint.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr double kLeastGain = 0.01;
constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{16} << 20;
constexpr const char* kRunFile = "run.json";
constexpr const char* kLockFile = "LOCK";
// What a run keeps in its work folder, beside those two.
constexpr const char* kWorkFiles[] = {"answers", "optimizer", "history.json", "draft", "replaced"};

std::string file_sha256(const fs::path& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // do not block on a FIFO
  if (!file) throw Error(ErrorCode::kNotFound, "cannot open " + path.string());
  return sha256_of(file.get(), path.string());
}

// A run reads both until its end.
void refuse_model_as_outcome(const WarmupOptions& options) {
  for (const fs::path& model : {fs::path(options.target), fs::path(options.draft)}) {
    std::error_code none;
    if (model.empty() || !fs::equivalent(options.out, model, none)) continue;
    throw Error(ErrorCode::kInvalidArgument, options.out.string() + " is the model that the draft is made from",
                "choose another --out", "out");
  }
}

void refuse_existing_outcome(const WarmupOptions& options) {
  refuse_model_as_outcome(options);
  const fs::file_type there = fs::symlink_status(options.out).type();
  if (there == fs::file_type::not_found) return;
  if (!options.force) {
    throw Error(
        ErrorCode::kConflict, options.out.string() + " exists already",
        fs::exists(warmup_work_folder(options.out) / kRunFile)
            ? "the run that made it is finished; " + warmup_work_folder(options.out).string() + " can be removed"
            : "choose another --out, or pass --force to replace it",
        "out");
  }
  // Refuses links: the final rename would replace the link by a folder, or fail after all work is done.
  const bool is_folder = there == fs::file_type::directory;
  if (!is_folder || (!fs::exists(options.out / "config.json") && !fs::is_empty(options.out))) {
    throw Error(ErrorCode::kInvalidArgument, options.out.string() + " is not a model folder, so it is not replaced",
                "choose another --out", "out");
  }
}

// A folder of this name that no run made is its owner's.
void refuse_foreign_work(const fs::path& folder) {
  if (!fs::is_directory(folder) || fs::exists(folder / kRunFile)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path name = entry.path().filename();
    if (name == kLockFile || name == std::string(kRunFile) + ".tmp") continue;
    throw Error(ErrorCode::kInvalidArgument,
                folder.string() + " holds " + name.string() + ", but no " + kRunFile + ", so no run made it",
                "move the folder away, or choose another --out", "out");
  }
}

nlohmann::json read_work_json(const fs::path& file) {
  try {
    return parse_strict_json(read_file(file, kMaxJsonBytes), file.string());
  } catch (const Error& error) {
    throw Error(ErrorCode::kDataLoss, file.string() + " is damaged: " + error.message(), "pass --force to begin anew");
  }
}

void check_same_run(const fs::path& file, const std::string& wanted, const fs::path& folder) {
  const nlohmann::json before = read_work_json(file);
  const nlohmann::json now = nlohmann::json::parse(wanted);
  const auto value_of = [](const nlohmann::json& run, const std::string& key) {
    return run.contains(key) ? run[key].dump() : std::string("none");
  };
  nlohmann::json both = now;  // the union: an option may exist in only one of the two
  both.update(before);
  for (const auto& [key, value] : both.items()) {
    if (value_of(before, key) == value_of(now, key)) continue;
    // Hashes of files tell a reader nothing.
    const std::string values = key == "data" ? "" : " (" + value_of(before, key) + ", now " + value_of(now, key) + ")";
    throw Error(ErrorCode::kConflict,
                "the interrupted run in " + folder.string() + " was started with another \"" + key + "\"" + values,
                "start it with the same options to go on, or pass --force to begin anew", key);
  }
}

}  // namespace

void WarmupHistory::forget_after(std::int64_t step) {
  std::erase_if(heldout, [step](const HeldoutPoint& point) { return point.step > step; });
  std::erase_if(skipped, [step](std::int64_t at) { return at > step; });
}

std::vector<std::size_t> evenly_spaced(std::size_t n, std::size_t most) {
  const std::size_t count = std::min(n, most);
  std::vector<std::size_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = i * n / count;
  return indices;
}

bool is_flat(const std::vector<HeldoutPoint>& heldout, std::size_t window) {
  if (heldout.size() <= window) return false;
  const auto recent = heldout.end() - static_cast<std::ptrdiff_t>(window);
  auto less = [](const HeldoutPoint& a, const HeldoutPoint& b) { return a.loss < b.loss; };
  const double before = std::min_element(heldout.begin(), recent, less)->loss;
  const double since = std::min_element(recent, heldout.end(), less)->loss;
  return since > before * (1 - kLeastGain);
}

// The concatenated SHA-256 prefixes (32 hex digits) of all weight files.
std::string weights_fingerprint(const fs::path& model) {
  const WeightFiles files(model);
  std::string text;
  for (const fs::path& path : files.paths()) text += file_sha256(path).substr(0, 32);
  return text;
}

std::string describe_run(const WarmupOptions& options) {
  nlohmann::json data = nlohmann::json::array();
  for (const fs::path& path : options.data) data.push_back(file_sha256(path));
  nlohmann::json run = {
      {"target", weights_fingerprint(options.target) + target_fingerprint(options.target)},
      {"data", data},
      {"share", options.share},
      {"answers", options.answers_from == AnswersFrom::kData ? "data" : "target"},
      {"max_tokens", options.max_tokens},
      {"loss", loss_name(options.trainer.loss.kind)},
      {"beta", options.trainer.loss.beta},
      {"loss_temperature", options.trainer.loss.temperature},
      {"learning_rate", options.trainer.learning_rate},
      {"weight_decay", options.trainer.weight_decay},
      {"warmup_steps", options.trainer.warmup_steps},
      {"steps", options.steps},
      {"batch", options.batch},
      {"seed", options.seed},
      {"dtype", options.dtype == Dtype::kFloat32 ? "float32" : "bfloat16"},
  };
  run["temperature"] = options.temperature ? nlohmann::json(*options.temperature) : nlohmann::json("mixed");
  if (options.device != nullptr) run["device"] = "cuda";
  if (options.trainer.optimizer == OptimizerKind::kMuon) {
    run["optimizer"] = "muon";
    run["matrix_learning_rate"] = options.trainer.matrix_learning_rate;
  }
  if (options.trainer.device == TrainingDevice::kCuda) run["learning_device"] = "cuda";
  if (!options.chat_template.empty()) run["chat_template"] = file_sha256(options.chat_template);
  if (options.draft.empty()) {
    const DraftShape& shape = options.shape;
    run["draft"] = {shape.hidden, shape.layers, shape.ffn, shape.heads, shape.kv_heads, shape.tied};
  } else {
    run["draft"] = weights_fingerprint(options.draft);
  }
  return run.dump(1);
}

WarmupWork::WarmupWork(const WarmupOptions& options) : folder_(warmup_work_folder(options.out)) {
  refuse_existing_outcome(options);
  refuse_foreign_work(folder_);
  const fs::path run_file = folder_ / kRunFile;
  if (options.resume && !fs::exists(run_file)) {
    throw Error(ErrorCode::kNotFound, "there is no interrupted run in " + folder_.string(), "start it without --resume",
                "resume");
  }
  const std::string run = describe_run(options);
  if (options.out.has_parent_path()) fs::create_directories(options.out.parent_path());
  lock_.emplace(folder_);
  if (options.force) clear(/*keep_lock=*/true);
  resumed_ = fs::exists(run_file);
  if (resumed_) check_same_run(run_file, run, folder_);
  if (!resumed_) replace_file(run_file, run, "warmup.run");
}

WarmupHistory WarmupWork::read_history() const {
  WarmupHistory history;
  const fs::path file = folder_ / "history.json";
  if (!fs::exists(file)) return history;
  const nlohmann::json document = read_work_json(file);
  try {
    for (const auto& point : document.at("heldout")) {
      history.heldout.push_back(
          {point.at(0).get<std::int64_t>(), point.at(1).get<double>(), point.at(2).get<double>()});
    }
    for (const auto& step : document.at("skipped")) history.skipped.push_back(step.get<std::int64_t>());
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kDataLoss, file.string() + " is damaged", "pass --force to begin anew");
  }
  return history;
}

void WarmupWork::write_history(const WarmupHistory& history) const {
  nlohmann::json document = {{"heldout", nlohmann::json::array()}, {"skipped", history.skipped}};
  for (const HeldoutPoint& point : history.heldout) {
    document["heldout"].push_back({point.step, point.loss, point.alpha});
  }
  replace_file(folder_ / "history.json", document.dump(), "warmup.history");
}

fs::path WarmupWork::staging() const {
  const fs::path folder = folder_ / "draft";
  fs::remove_all(folder);
  fs::create_directory(folder);
  return folder;
}

void WarmupWork::deliver(const fs::path& out, bool keep) const {
  sync_directory(folder_ / "draft", "warmup.deliver");
  if (fs::exists(out)) rename_path(out, folder_ / "replaced", "warmup.deliver");
  rename_path(folder_ / "draft", out, "warmup.deliver");
  sync_directory(out.has_parent_path() ? out.parent_path() : ".", "warmup.deliver");
  fs::remove_all(folder_ / "replaced");
  if (!keep) clear(/*keep_lock=*/false);
}

// Removes what runs made, and the folder if nothing else is in it. run.json goes after all that it describes: a folder
// without it is somebody else's. The lock goes last, since a second run could start if it went earlier.
void WarmupWork::clear(bool keep_lock) const {
  for (const char* name : kWorkFiles) {
    fs::remove_all(folder_ / name);
    fs::remove(folder_ / (std::string(name) + ".tmp"));
  }
  fs::remove(folder_ / kRunFile);
  if (keep_lock) return;
  fs::remove(folder_ / kLockFile);
  std::error_code not_empty;
  fs::remove(folder_, not_empty);
}

}  // namespace slip
