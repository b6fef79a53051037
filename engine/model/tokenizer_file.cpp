// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "engine/model/byte_alphabet.h"

namespace slip {

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxEntries = std::int64_t{1} << 20;
constexpr std::size_t kMaxMerges = std::size_t{1} << 21;
constexpr std::size_t kMaxTokenBytes = 4096;  // R4; the longest seen in public vocabularies is 512

[[noreturn]] void unsupported(const std::string& where, const std::string& key, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, where + ": " + key + ": " + what + " is not supported",
              "byte-level BPE with one split pattern and no normalizer is", key);
}

[[noreturn]] void invalid(const std::string& where, const std::string& key, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, where + ": " + key + ": " + why, {}, key);
}

// The keys that change what text becomes, and the one value of each that this reader implements.
void require_absent(const JsonFields& fields, const char* key, const std::string& path) {
  if (fields.find(key) != nullptr) unsupported(fields.where(), path + key, "anything but null");
}

void require_false(const JsonFields& fields, const char* key, const std::string& path) {
  if (fields.optional_boolean(key).value_or(false)) unsupported(fields.where(), path + key, "true");
}

void require_empty(const JsonFields& fields, const char* key, const std::string& path) {
  if (!fields.optional_string(key).value_or("").empty()) unsupported(fields.where(), path + key, "a value");
}

void require_type(const JsonFields& fields, const char* type, const std::string& path) {
  if (fields.optional_string("type").value_or("") != type) {
    unsupported(fields.where(), path + "type", std::string("anything but ") + type);
  }
}

JsonFields fields_of(const json& object, const std::string& where, const std::string& path) {
  if (!object.is_object()) invalid(where, path, "must be an object");
  return JsonFields(object, where);
}

const json& required(const JsonFields& fields, const char* key, const std::string& path) {
  const json* value = fields.find(key);
  if (value == nullptr) invalid(fields.where(), path + key, "is missing");
  return *value;
}

// Sequence[Split(Regex, Isolated), ByteLevel without a regex of its own]: gives the split pattern.
std::string read_pre_tokenizer(const JsonFields& file) {
  const std::string& where = file.where();
  const std::string path = "pre_tokenizer.";
  const JsonFields sequence = fields_of(required(file, "pre_tokenizer", ""), where, "pre_tokenizer");
  require_type(sequence, "Sequence", path);
  const json& steps = required(sequence, "pretokenizers", path);
  if (!steps.is_array() || steps.size() != 2) unsupported(where, path + "pretokenizers", "anything but two steps");

  const std::string split_path = path + "pretokenizers[0].";
  const JsonFields split = fields_of(steps[0], where, split_path);
  require_type(split, "Split", split_path);
  require_false(split, "invert", split_path);
  if (split.optional_string("behavior").value_or("") != "Isolated") {
    unsupported(where, split_path + "behavior", "anything but Isolated");
  }
  const JsonFields pattern = fields_of(required(split, "pattern", split_path), where, split_path + "pattern");
  const std::optional<std::string> regex = pattern.optional_string("Regex");
  if (!regex) unsupported(where, split_path + "pattern", "anything but Regex");

  const std::string bytes_path = path + "pretokenizers[1].";
  const JsonFields bytes = fields_of(steps[1], where, bytes_path);
  require_type(bytes, "ByteLevel", bytes_path);
  require_false(bytes, "add_prefix_space", bytes_path);
  if (bytes.optional_boolean("use_regex").value_or(true)) unsupported(where, bytes_path + "use_regex", "true");
  return *regex;
}

void check_surroundings(const JsonFields& file) {
  for (const char* key : {"normalizer", "truncation", "padding"}) require_absent(file, key, "");
  // A byte-level post-processor only trims offsets; any other adds tokens, which is the chat template's business here.
  if (const json* post = file.find("post_processor")) {
    require_type(fields_of(*post, file.where(), "post_processor"), "ByteLevel", "post_processor.");
  }
  require_type(fields_of(required(file, "decoder", ""), file.where(), "decoder"), "ByteLevel", "decoder.");
}

void check_model(const JsonFields& model) {
  require_type(model, "BPE", "model.");
  require_empty(model, "continuing_subword_prefix", "model.");
  require_empty(model, "end_of_word_suffix", "model.");
  require_false(model, "byte_fallback", "model.");
  require_false(model, "ignore_merges", "model.");
  if (model.find("dropout") != nullptr) unsupported(model.where(), "model.dropout", "anything but null");
}

class EntryReader {
 public:
  explicit EntryReader(const std::string& where) : where_(where) {}

  void read_vocabulary(const json& vocabulary) {
    if (!vocabulary.is_object()) invalid(where_, "model.vocab", "must be an object");
    if (vocabulary.size() > static_cast<std::size_t>(kMaxEntries)) invalid(where_, "model.vocab", "is too large");
    for (const auto& [content, id] : vocabulary.items()) place(content, id, "model.vocab");
  }

  void read_added(const json& added) {
    if (!added.is_array()) invalid(where_, "added_tokens", "must be a list");
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string path = "added_tokens[" + std::to_string(i) + "].";
      const JsonFields token = fields_of(added[i], where_, path);
      for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) require_false(token, flag, path);
      const std::optional<std::string> content = token.optional_string("content");
      if (!content) invalid(where_, path + "content", "is missing");
      const std::int64_t id = place(*content, required(token, "id", path), path + "id");
      TokenizerFile::Entry& entry = by_id_.at(id);
      if (entry.kind != TokenizerFile::Kind::kVocabulary) invalid(where_, path + "id", "is repeated");
      const bool special = token.optional_boolean("special").value_or(false);
      entry.kind = special ? TokenizerFile::Kind::kSpecial : TokenizerFile::Kind::kAdded;
    }
  }

  // Ids are dense: the embedding has a row for each, and a hole would be a token that cannot be shown.
  std::vector<TokenizerFile::Entry> take() {
    std::vector<TokenizerFile::Entry> entries;
    for (std::size_t id = 0; id < by_id_.size(); ++id) {
      const auto found = by_id_.find(static_cast<std::int64_t>(id));
      if (found == by_id_.end()) invalid(where_, "model.vocab", "no entry has id " + std::to_string(id));
      entries.push_back(std::move(found->second));
      fill_bytes(entries.back(), id);
    }
    return entries;
  }

  const std::unordered_map<std::string, std::int64_t>& ids() const { return ids_; }

 private:
  // An added token may repeat a vocabulary entry, id and content alike.
  std::int64_t place(const std::string& content, const json& value, const std::string& key) {
    if (content.empty() || content.size() > kMaxTokenBytes) {
      invalid(where_, key, "an entry is empty or over " + std::to_string(kMaxTokenBytes) + " bytes");
    }
    const std::optional<std::int64_t> id = exact_integer(value, {0, kMaxEntries - 1});
    if (!id) invalid(where_, key, "an id is not an integer below " + std::to_string(kMaxEntries));
    const auto [by_content, fresh_content] = ids_.try_emplace(content, *id);
    const auto [by_id, fresh_id] = by_id_.try_emplace(*id, TokenizerFile::Entry{content, {}, {}});
    if (fresh_content != fresh_id || by_content->second != *id) {
      invalid(where_, key, "id " + std::to_string(*id) + " and its content do not belong to each other alone");
    }
    return *id;
  }

  void fill_bytes(TokenizerFile::Entry& entry, std::size_t id) const {
    if (entry.kind == TokenizerFile::Kind::kSpecial) return;
    if (entry.kind == TokenizerFile::Kind::kAdded) {
      entry.bytes = entry.content;
      return;
    }
    std::optional<std::string> bytes = bytes_of_spelling(entry.content);
    if (!bytes) invalid(where_, "model.vocab", "entry " + std::to_string(id) + " is not spelled in byte-level letters");
    entry.bytes = std::move(*bytes);
  }

  const std::string& where_;
  std::unordered_map<std::int64_t, TokenizerFile::Entry> by_id_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

// Both spellings of a merge: ["a", "b"] and "a b".
std::pair<std::string, std::string> read_pair(const json& merge, const std::string& where, const std::string& key) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (!merge.is_string()) invalid(where, key, "must be a pair of strings");
  const auto text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) invalid(where, key, "must be a pair of strings");
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Merge> read_merges(const json& merges, const std::string& where,
                               const std::unordered_map<std::string, std::int64_t>& ids) {
  if (!merges.is_array()) invalid(where, "model.merges", "must be a list");
  if (merges.size() > kMaxMerges) invalid(where, "model.merges", "is too long");
  std::vector<Merge> out;
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string key = "model.merges[" + std::to_string(rank) + "]";
    const auto [left, right] = read_pair(merges[rank], where, key);
    const auto id_of = [&, &k = key](const std::string& content) {
      const auto found = ids.find(content);
      if (found == ids.end()) invalid(where, k, "names something outside the vocabulary");
      return static_cast<std::int32_t>(found->second);
    };
    out.push_back({id_of(left), id_of(right), id_of(left + right)});
    const auto pair = static_cast<std::uint64_t>(out.back().left) << 32 | static_cast<std::uint32_t>(out.back().right);
    if (!seen.insert(pair).second) invalid(where, key, "is repeated");
  }
  return out;
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& where) {
  const json document = parse_strict_json(text, where);
  const JsonFields file(document, where);
  check_surroundings(file);
  const JsonFields model = fields_of(required(file, "model", ""), where, "model");
  check_model(model);

  TokenizerFile out;
  out.pattern = read_pre_tokenizer(file);
  EntryReader entries(where);
  entries.read_vocabulary(required(model, "vocab", "model."));
  if (const json* added = file.find("added_tokens")) entries.read_added(*added);
  out.merges = read_merges(required(model, "merges", "model."), where, entries.ids());
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = entries.ids().find(spelling_of_byte(static_cast<unsigned char>(byte)));
    if (found == entries.ids().end()) invalid(where, "model.vocab", "byte " + std::to_string(byte) + " has no entry");
    out.byte_ids[static_cast<std::size_t>(byte)] = static_cast<std::int32_t>(found->second);
  }
  out.entries = entries.take();
  return out;
}

}  // namespace slip
