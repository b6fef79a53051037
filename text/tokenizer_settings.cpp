// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/strict_json.h"
#include "common/file.h"
#include "text/tokenizer_fields.h"

namespace slip {

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxConfigBytes = 8U << 20;
constexpr std::int32_t kMaxId = (1 << 20) - 1;
constexpr const char* kAddedTokens = "added_tokens_decoder";
constexpr const char* kMoreSpecialTokens = "additional_special_tokens";
constexpr std::array kSpecialTokens{"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

json read_json(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return json::object();
  return parse_strict_json(read_file(path, kMaxConfigBytes), path.string());
}

// "<s>" or {"content": "<s>", …}, as different versions of transformers write it.
std::string spelling(const TokenizerFields& config, const char* key) {
  return config.required(key).is_object() ? config.object(key).text("content") : config.text(key);
}

void read_names(const TokenizerFields& file, TokenizerSettings& out) {
  for (const char* key : kSpecialTokens) {
    if (file.find(key) != nullptr) out.special_tokens[key] = spelling(file, key);
  }
}

// Adds the special tokens that have no role.
void read_more_names(const TokenizerFields& file, std::set<std::string>& names) {
  const json* list = file.find(kMoreSpecialTokens);
  if (list == nullptr) return;
  if (!list->is_array()) file.invalid(kMoreSpecialTokens, "must be a list");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& one = (*list)[i];
    const std::string key = std::string(kMoreSpecialTokens) + "[" + std::to_string(i) + "]";
    if (!one.is_string() && !one.is_object()) file.invalid(key, "must be a string or an object");
    const json wrapped = one.is_string() ? json{{"content", one}} : one;
    names.insert(TokenizerFields(wrapped, file.where(), file.path_of(key)).text("content"));
  }
}

void check_distinct(std::vector<TokenizerSettings::Added>& tokens, const TokenizerFields& file, const char* key) {
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const auto same = [](const auto& a, const auto& b) { return a.id == b.id; };
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end(), same);
  if (twice != tokens.end()) file.invalid(key, "repeats an id, " + std::to_string(twice->id));
}

// Reads added_tokens.json: {"<|im_end|>": 32000, …}. A token is special if another key names it as such.
std::vector<TokenizerSettings::Added> read_added_file(const TokenizerFields& file, const json& document,
                                                      const std::set<std::string>& special) {
  std::vector<TokenizerSettings::Added> out;
  for (const auto& [content, value] : document.items()) {
    const std::string key = content.substr(0, 32);
    const auto id = exact_integer(value, {0, kMaxId});
    if (!id) file.invalid(key, "is no id below " + std::to_string(kMaxId + 1));
    if (content.empty()) file.invalid(key, "names an empty token");
    if (content.size() > TokenizerFields::kMaxTextBytes) file.invalid(key, "is too long");
    out.push_back(
        {static_cast<std::int32_t>(*id), content, {.special = special.contains(content)}, file.where() + ": " + key});
  }
  check_distinct(out, file, "the file");
  return out;
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
  std::vector<TokenizerSettings::Added> out;
  const TokenizerFields ids = config.object(kAddedTokens);
  for (const auto& [key, value] : config.required(kAddedTokens).items()) {
    const std::int32_t id = parse_id(ids, key);
    const TokenizerFields token(value, config.where(), ids.path_of(key));
    out.push_back({id,
                   token.text("content"),
                   {token.flag("special", false), token.flag("single_word", false), token.flag("lstrip", false),
                    token.flag("rstrip", false), /*normalized=*/false},
                   config.where() + ": " + ids.path_of(std::to_string(id))});
    if (out.back().content.empty()) token.invalid("content", "is empty");
  }
  check_distinct(out, config, kAddedTokens);  // "7" and "07"
  return out;
}

void read_older_files(const std::filesystem::path& folder, const TokenizerFields& config, TokenizerSettings& out) {
  const std::filesystem::path names_file = folder / "special_tokens_map.json",
                              added_file = folder / "added_tokens.json";
  const json names = read_json(names_file), added = read_json(added_file);
  const TokenizerFields map(names, names_file.string(), "");
  read_names(map, out);
  std::set<std::string> special;
  for (const TokenizerFields* file : {&config, &map}) read_more_names(*file, special);
  for (const auto& [role, spelling] : out.special_tokens) special.insert(spelling);
  out.added = read_added_file(TokenizerFields(added, added_file.string(), ""), added, special);
}

}  // namespace

TokenizerSettings TokenizerSettings::read(const std::filesystem::path& folder) {
  const json document = read_tokenizer_config(folder);
  const TokenizerFields config(document, (folder / "tokenizer_config.json").string(), "");
  TokenizerSettings out;
  read_names(config, out);
  out.add_bos = config.flag("add_bos_token", out.add_bos);
  out.add_eos = config.flag("add_eos_token", out.add_eos);
  if (config.find(kAddedTokens) != nullptr) {
    out.added = read_added(config);
  } else {
    read_older_files(folder, config, out);
  }
  return out;
}

json read_tokenizer_config(const std::filesystem::path& folder) {
  return read_json(folder / "tokenizer_config.json");
}

}  // namespace slip
