// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/weight_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxShards = 1024;  // each is an open mapping
constexpr std::size_t kMaxNameBytes = 255;

using ShardOf = std::map<std::string, std::string, std::less<>>;  // tensor → file

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, where + ": " + why, "fetch the folder again", "weight_map");
}

[[noreturn]] void disagree(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::kDataLoss, where + ": " + why, "the index and its shards are not of one model");
}

[[noreturn]] void report_no_weights(const std::filesystem::path& folder) {
  const bool pickled = std::filesystem::exists(folder / "pytorch_model.bin");
  throw Error(ErrorCode::kNotFound, "there is no model.safetensors in " + folder.string(),
              pickled ? "pytorch_model.bin can run code when opened and is never read; convert it to safetensors"
                      : "pass a Hugging Face folder: config.json, model.safetensors, tokenizer.json");
}

// Letters, digits, '-', '_' and inner dots, ending in .safetensors: such a name cannot leave the folder.
bool is_plain_shard_name(const std::string& name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return name.size() <= kMaxNameBytes && name.ends_with(".safetensors") && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), plain);
}

ShardOf read_index(const std::filesystem::path& path) {
  const std::string where = path.string();
  const json document = parse_strict_json(read_file(path, kMaxIndexBytes), where, {.max_depth = 4});
  const JsonFields fields(document, where);
  const json* map = fields.find("weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) refuse(where, "\"weight_map\" must name the tensors' files");
  ShardOf shard_of;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_shard_name(file.get_ref<const std::string&>())) {
      refuse(where, "\"weight_map\" holds something other than plain names of .safetensors files");
    }
    shard_of.emplace(tensor, file.get<std::string>());
  }
  return shard_of;
}

std::set<std::string> shard_names(const ShardOf& shard_of, const std::string& where) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : shard_of) names.insert(file);
  if (names.size() > kMaxShards) refuse(where, "\"weight_map\" names more than 1024 files");
  return names;
}

}  // namespace

WeightFiles::WeightFiles(const std::filesystem::path& folder) : where_((folder / kSingleFile).string()) {
  if (std::filesystem::exists(folder / kSingleFile)) {
    paths_.push_back(folder / kSingleFile);
    files_.push_back(std::make_unique<SafetensorsFile>(paths_.back()));
    tensors_ = files_.front()->tensors();
  } else if (std::filesystem::exists(folder / kIndexFile)) {
    where_ = (folder / kIndexFile).string();
    open_shards(folder);
  } else {
    report_no_weights(folder);
  }
}

void WeightFiles::open_shards(const std::filesystem::path& folder) {
  const ShardOf shard_of = read_index(folder / kIndexFile);
  for (const std::string& shard : shard_names(shard_of, where_)) {
    paths_.push_back(folder / shard);
    files_.push_back(std::make_unique<SafetensorsFile>(paths_.back()));
    for (const auto& [name, tensor] : files_.back()->tensors()) {
      const auto indexed = shard_of.find(name);
      if (indexed == shard_of.end()) disagree(where_, "tensor " + name + " of " + shard + " is not in the index");
      if (indexed->second != shard)
        disagree(where_, "tensor " + name + " is in " + shard + ", not in " + indexed->second);
      tensors_.emplace(name, tensor);
    }
  }
  for (const auto& [name, shard] : shard_of) {
    if (!contains(name)) disagree(where_, "tensor " + name + " is not in " + shard);
  }
}

void WeightFiles::release(const StoredTensor& tensor) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
  const std::uintptr_t first = (begin + page - 1) / page * page, end = (begin + tensor.bytes.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

const StoredTensor& WeightFiles::get(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(ErrorCode::kNotFound, where_ + ": there is no tensor " + std::string(name),
                "the file does not belong to this config.json");
  }
  return found->second;
}

}  // namespace slip
