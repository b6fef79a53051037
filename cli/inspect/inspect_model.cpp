// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/draft_meta.h"
#include "checkpoints/finite_tensor.h"
#include "checkpoints/llama_tensors.h"
#include "checkpoints/model_config.h"
#include "checkpoints/store_folder.h"
#include "checkpoints/strict_json.h"
#include "checkpoints/weight_files.h"
#include "cli/inspect/inspection.h"
#include "common/error.h"
#include "common/file.h"
#include "common/topic_name.h"
#include "ledger/report_parts.h"
#include "text/tokenizer.h"
#include "text/tokenizer_paths.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxMetaBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxTokenizerConfigBytes = std::uint64_t{8} << 20;
constexpr const char* kCurrentFile = "CURRENT";

const char* dtype_text(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kFloat16:
      return "float16";
    case Dtype::kBFloat16:
      break;
  }
  return "bfloat16";
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto extent : shape) text += (text.empty() ? "" : " × ") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

std::string ids_text(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const auto id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text.empty() ? "none" : text;
}

std::string file_sha256(const fs::path& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw Error(ErrorCode::kNotFound, path.string() + " is missing");
  return sha256_of(file.get(), path.string());
}

template <class Look>
void or_fault(Inspection& found, Look look) {
  try {
    look();
  } catch (const Error& error) {
    found.add_error(error);
  }
}

void add_shape(Inspection& found, const ModelConfig& config) {
  found.add("architecture", config.architecture);
  found.add("parameters", config.parameters());
  found.add("layers", std::int64_t{config.n_layers});
  found.add("hidden", std::int64_t{config.hidden_size});
  found.add("ffn", std::int64_t{config.intermediate_size});
  found.add("heads", std::int64_t{config.n_heads});
  found.add("kv heads", std::int64_t{config.n_kv_heads});
  found.add("head size", std::int64_t{config.head_dim});
  found.add("vocabulary", std::int64_t{config.vocab_size});
  found.add("context", std::int64_t{config.max_positions});
  found.add("tied embeddings", std::string(config.tied_embeddings ? "yes" : "no"));
  found.add("stored as", std::string(dtype_text(config.stored_dtype)));
  found.add("end ids", ids_text(config.eos_ids));
}

// Checks and counts the weights in one pass.
void add_values(Inspection& found, const TensorMap& tensors, const std::string& where) {
  std::string first;
  std::int64_t n = 0;
  for (const auto& [name, tensor] : tensors) {
    const bool finite = is_finite(tensor);
    WeightFiles::release(tensor);
    if (finite) continue;
    if (n++ == 0) first = name;
  }
  found.add("tensors with NaN or infinity", n);
  if (n > 0) {
    found.faults.push_back(where + ": " + std::to_string(n) + " tensors hold a NaN or an infinity, first " + first);
  }
}

void add_weights(Inspection& found, const fs::path& folder, const ModelConfig& config) {
  const WeightFiles weights(folder);
  std::int64_t bytes = 0;
  for (const fs::path& path : weights.paths()) bytes += static_cast<std::int64_t>(fs::file_size(path));
  found.add("tensors", static_cast<std::int64_t>(weights.tensors().size()));
  found.add("weight bytes", bytes);
  check_llama_tensors(weights.tensors(), config, weights.where());
  add_values(found, weights.tensors(), weights.where());
}

// Checks tokenizer_config.json, which a service reads for a chat template and for a tokenizer.model.
void add_tokenizer_config(Inspection& found, const fs::path& folder) {
  const fs::path file = folder / "tokenizer_config.json";
  if (fs::symlink_status(file).type() == fs::file_type::not_found) return;
  or_fault(found, [&] {
    std::error_code loop;
    if (!fs::is_regular_file(file, loop)) {
      throw Error(ErrorCode::kInvalidArgument, file.string() + " is not a regular file");
    }
    parse_strict_json(read_file(file, kMaxTokenizerConfigBytes), file.string());
  });
}

Cell measured(const DraftMeta& meta, double figure) {
  const auto found = if_measured(meta, figure);
  return found ? Cell(*found) : Cell();
}

void add_meta(Inspection& found, const DraftMeta& meta) {
  found.add("draft", meta.draft);
  found.add("version", static_cast<std::int64_t>(meta.version));
  found.add("parent", static_cast<std::int64_t>(meta.parent));
  found.add("topic", meta.topic);
  found.add("target", meta.target);
  found.add("target fingerprint", meta.target_fingerprint);
  found.add("made", utc_text(meta.created_us, "%Y-%m-%dT%H:%M:%SZ"));
  found.add("reason", meta.reason);
  found.add("optimizer steps", static_cast<std::int64_t>(meta.optimizer_steps));
  found.add("trained requests", static_cast<std::int64_t>(meta.trained_requests));
  found.add("held-out alpha before", measured(meta, meta.heldout_alpha_before));
  found.add("held-out alpha", measured(meta, meta.heldout_alpha));
  found.add("rolled back", std::string(meta.rolled_back ? "yes" : "no"));
}

DraftMeta read_meta(const fs::path& folder) {
  const fs::path file = folder / "meta.json";
  return parse_draft_meta(read_file(file, kMaxMetaBytes), file.string());
}

// "ok", or the fault of a version's weights.
std::string weights_state(const fs::path& folder, const DraftMeta& meta) {
  if (meta.weights_retired) return "retired";
  if (!fs::exists(folder / "model.safetensors")) return "missing";
  return file_sha256(folder / "model.safetensors") == meta.weights_sha256 ? "ok" : "damaged";
}

// Uses StoreFolder like the service, so it follows no link.
std::uint64_t current_version(const StoreFolder& draft) {
  std::string text = draft.read(kCurrentFile, /*max_bytes=*/64);
  if (text.ends_with('\n')) text.pop_back();
  const auto version = parse_version_name(text);
  if (!version) throw Error(ErrorCode::kDataLoss, (draft.path() / kCurrentFile).string() + " names no version");
  return *version;
}

// A version may have none: it is used with the target's.
void check_tokenizer(const StoreFolder& folder) {
  bool has_vocabulary = false;
  for (const std::string name : kTokenizerFiles) {
    if (!folder.contains(name)) continue;
    folder.open_file(name);  // refuses a link
    has_vocabulary |= name == "tokenizer.json" || name == "tokenizer.model";
  }
  if (has_vocabulary) Tokenizer::load(folder.path());
}

// Checks a version apart from its checksum; the Error names the fault.
void check_version(const StoreFolder& folder, const DraftMeta& meta, const std::string& draft, std::uint64_t number) {
  if (meta.draft != draft || meta.version != number) {
    throw Error(ErrorCode::kDataLoss, (folder.path() / "meta.json").string() + " describes another version");
  }
  if (meta.weights_retired) return;
  folder.open_file("config.json");  // refuses a link
  for (const char* optional : {"generation_config.json", "model.safetensors"}) {
    if (folder.contains(optional)) folder.open_file(optional);
  }
  const ModelConfig config = load_model_config(folder.path());
  if (!folder.contains("model.safetensors")) return;
  const WeightFiles weights(folder.path());
  check_llama_tensors(weights.tensors(), config, weights.where());
  check_tokenizer(folder);
}

void add_version(Inspection& found, Sheet& versions, const StoreFolder& draft, std::uint64_t number,
                 std::uint64_t current) {
  const StoreFolder folder = draft.child(version_name(number));
  const std::string where = folder.path().string();
  const DraftMeta meta =
      parse_draft_meta(folder.read("meta.json", kMaxMetaBytes), (folder.path() / "meta.json").string());
  std::string weights = "refused";
  or_fault(found, [&] {
    check_version(folder, meta, draft.path().filename().string(), number);
    weights = weights_state(folder.path(), meta);
  });
  const bool is_current = number == current;
  if (weights == "damaged" || weights == "missing") found.faults.push_back(where + ": weights " + weights);
  if (is_current && weights == "retired") found.faults.push_back(where + " is current, but retired");
  versions.rows.push_back({meta.draft, static_cast<std::int64_t>(meta.version),
                           std::string(is_current ? "current" : (meta.rolled_back ? "rolled back" : "")),
                           static_cast<std::int64_t>(meta.parent), meta.reason,
                           utc_text(meta.created_us, "%Y-%m-%dT%H:%M:%SZ"),
                           static_cast<std::int64_t>(meta.optimizer_steps), measured(meta, meta.heldout_alpha_before),
                           measured(meta, meta.heldout_alpha), weights});
}

void add_draft(Inspection& found, Sheet& versions, const StoreFolder& draft) {
  std::set<std::uint64_t> numbers;
  for (const auto& name : draft.names()) {
    if (const auto number = parse_version_name(name)) numbers.insert(*number);
  }
  // Without any version: a crash before the first one was published.
  std::uint64_t current = 0;
  if (!numbers.empty() || draft.contains(kCurrentFile)) or_fault(found, [&] { current = current_version(draft); });
  if (current != 0 && !numbers.contains(current)) {
    found.faults.push_back((draft.path() / kCurrentFile).string() + " names " + version_name(current) +
                           ", which is not there");
  }
  for (const auto number : numbers) {
    or_fault(found, [&] { add_version(found, versions, draft, number, current); });
  }
}

}  // namespace

Inspection inspect_model(const fs::path& folder) {
  Inspection found{.kind = fs::exists(folder / "meta.json") ? "draft" : "checkpoint"};
  try {
    const ModelConfig config = load_model_config(folder);
    add_shape(found, config);
    or_fault(found, [&] { add_weights(found, folder, config); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) throw;  // another kind of model is not a damaged one
    found.add_error(error);
  }
  or_fault(found, [&] {
    Tokenizer::load(folder);
    found.add("tokenizer", std::string("ok"));
  });
  add_tokenizer_config(found, folder);
  if (found.kind != "draft") return found;
  or_fault(found, [&] {
    const DraftMeta meta = read_meta(folder);
    add_meta(found, meta);
    const std::string weights = weights_state(folder, meta);
    found.add("weights checksum", weights);
    if (weights == "damaged") found.faults.push_back(folder.string() + ": weights differ from their checksum");
  });
  return found;
}

Inspection inspect_safetensors(const fs::path& file) {
  Inspection found{.kind = "safetensors"};
  const SafetensorsFile weights(file);
  std::int64_t values = 0;
  Sheet tensors{.columns = {"tensor", "dtype", "shape", "bytes"}};
  for (const auto& [name, tensor] : weights.tensors()) {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
    values += bytes / static_cast<std::int64_t>(dtype_bytes(tensor.dtype));
    tensors.rows.push_back({name, std::string(dtype_text(tensor.dtype)), shape_text(tensor.shape), bytes});
  }
  found.add("bytes", static_cast<std::int64_t>(fs::file_size(file)));
  found.add("values", values);
  add_values(found, weights.tensors(), file.string());
  for (const auto& [key, value] : weights.metadata()) found.add("metadata " + key, value);
  found.tables.emplace_back("tensors", std::move(tensors));
  return found;
}

Inspection inspect_draft_store(const fs::path& folder) {
  Inspection found{.kind = "draft store"};
  Sheet versions{.columns = {"draft", "version", "state", "parent", "reason", "made", "steps", "alpha_before", "alpha",
                             "weights"}};
  std::int64_t drafts = 0;
  const StoreFolder store = StoreFolder::open_existing(folder);
  for (const auto& name : store.names()) {
    if (!is_topic_name(name)) continue;
    ++drafts;
    or_fault(found, [&] { add_draft(found, versions, store.child(name)); });
  }
  found.add("drafts", drafts);
  found.add("versions", static_cast<std::int64_t>(versions.rows.size()));
  found.tables.emplace_back("versions", std::move(versions));
  return found;
}

}  // namespace slip::cli
