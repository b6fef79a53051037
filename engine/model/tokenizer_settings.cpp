// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tokenizer_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "checkpoints/strict_json.h"
#include "common/file.h"
#include "engine/model/tokenizer_fields.h"

namespace slip {

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxConfigBytes = 8U << 20;
constexpr std::int32_t kMaxId = (1 << 20) - 1;
constexpr std::array kSpecialTokens{"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

// "<s>" or {"content": "<s>", …}, as different versions of transformers write it.
std::string spelling(const TokenizerFields& config, const char* key) {
  return config.required(key).is_object() ? config.object(key).text("content") : config.text(key);
}

std::int32_t parse_id(const TokenizerFields& ids, const std::string& key) {
  std::int32_t id = -1;
  const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (failed != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxId) {
    ids.invalid(key.substr(0, 32), "is no id below " + std::to_string(kMaxId + 1));
  }
  return id;
}

std::vector<TokenizerSettings::Added> read_added(const TokenizerFields& config) {
  constexpr const char* kKey = "added_tokens_decoder";
  std::vector<TokenizerSettings::Added> out;
  if (config.find(kKey) == nullptr) return out;
  const TokenizerFields ids = config.object(kKey);
  for (const auto& [key, value] : config.required(kKey).items()) {
    const std::int32_t id = parse_id(ids, key);
    const TokenizerFields token(value, config.where(), ids.path_of(key));
    out.push_back({id,
                   token.text("content"),
                   {token.flag("special", false), token.flag("single_word", false), token.flag("lstrip", false),
                    token.flag("rstrip", false), /*normalized=*/false}});
    if (out.back().content.empty()) token.invalid("content", "is empty");
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const auto same = [](const auto& a, const auto& b) { return a.id == b.id; };  // "7" and "07"
  if (std::adjacent_find(out.begin(), out.end(), same) != out.end()) config.invalid(kKey, "repeats an id");
  return out;
}

}  // namespace

TokenizerSettings TokenizerSettings::read(const std::filesystem::path& folder) {
  return read(read_tokenizer_config(folder), (folder / "tokenizer_config.json").string());
}

TokenizerSettings TokenizerSettings::read(const json& document, const std::string& where) {
  const TokenizerFields config(document, where, "");
  TokenizerSettings out;
  for (const char* key : kSpecialTokens) {
    if (config.find(key) != nullptr) out.special_tokens[key] = spelling(config, key);
  }
  out.add_bos = config.flag("add_bos_token", out.add_bos);
  out.add_eos = config.flag("add_eos_token", out.add_eos);
  out.added = read_added(config);
  return out;
}

json read_tokenizer_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return json::object();
  return parse_strict_json(read_file(path, kMaxConfigBytes), path.string());
}

}  // namespace slip
