// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "text/byte_alphabet.h"
#include "text/byte_spelling.h"
#include "text/tokenizer_fields.h"

namespace slip {

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxEntries = std::int64_t{1} << 20;
constexpr std::size_t kMaxMerges = std::size_t{1} << 21;

// Checks the options that change the tokens: each must have the one value that this reader implements.
void check_model(const TokenizerFields& model) {
  if (model.type() != "BPE") model.unsupported("type", "anything but BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text(key, "").empty()) model.unsupported(key, "a value");
  }
  if (model.find("dropout") != nullptr) model.unsupported("dropout", "anything but null");
}

void check_surroundings(const TokenizerFields& file) {
  for (const char* key : {"truncation", "padding"}) {
    if (file.find(key) != nullptr) file.unsupported(key, "anything but null");
  }
}

class EntryReader {
 public:
  explicit EntryReader(const TokenizerFields& file) : file_(file) {}

  void read_vocabulary(const json& vocabulary) {
    if (!vocabulary.is_object()) file_.invalid("model.vocab", "must be an object");
    if (vocabulary.size() > static_cast<std::size_t>(kMaxEntries)) file_.invalid("model.vocab", "is too large");
    for (const auto& [content, id] : vocabulary.items()) by_id_.at(place(content, id, "model.vocab")).in_model = true;
  }

  void read_added(const json& added, const Normalizer& normalizer, std::vector<TokenizerFile::Added>& out) {
    if (!added.is_array()) file_.invalid("added_tokens", "must be a list");
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string path = "added_tokens[" + std::to_string(i) + "]";
      const TokenizerFields token(added[i], file_.where(), path);
      const std::int64_t id = place(token.text("content"), token.required("id"), path + ".id");
      VocabularyEntry& entry = by_id_.at(id);
      if (entry.kind != VocabularyEntry::Kind::kVocabulary) token.invalid("id", "is repeated");
      const bool special = token.flag("special", false);
      entry.kind = special ? VocabularyEntry::Kind::kSpecial : VocabularyEntry::Kind::kAdded;
      out.push_back({static_cast<std::int32_t>(id),
                     {special, token.flag("single_word", false), token.flag("lstrip", false),
                      token.flag("rstrip", false), token.flag("normalized", !special)}});
      if (out.back().flags.normalized) entry.normalized = normalizer.apply(entry.content);
    }
  }

  // Ids must be dense: the embedding has a row for each, and a token in a hole could not be decoded.
  std::vector<VocabularyEntry> take(const TokenDecoder& decoder) {
    std::vector<VocabularyEntry> entries;
    for (std::size_t id = 0; id < by_id_.size(); ++id) {
      const auto found = by_id_.find(static_cast<std::int64_t>(id));
      if (found == by_id_.end()) file_.invalid("model.vocab", "no entry has id " + std::to_string(id));
      VocabularyEntry& entry = entries.emplace_back(std::move(found->second));
      if (entry.kind != VocabularyEntry::Kind::kSpecial) {
        entry.bytes = decoder.token_bytes(entry.spelling(), /*is_first=*/false);
      }
    }
    return entries;
  }

  // The id of a model entry, −1 if there is none.
  std::int32_t find(const std::string& content) const {
    const auto found = ids_.find(content);
    return found == ids_.end() || !by_id_.at(found->second).in_model ? -1 : static_cast<std::int32_t>(found->second);
  }

 private:
  // An added token may repeat a vocabulary entry with the same id and content.
  std::int64_t place(const std::string& content, const json& value, const std::string& key) {
    if (content.empty() || content.size() > TokenizerFields::kMaxTextBytes) {
      file_.invalid(key, "an entry is empty or over " + std::to_string(TokenizerFields::kMaxTextBytes) + " bytes");
    }
    const std::optional<std::int64_t> id = exact_integer(value, {0, kMaxEntries - 1});
    if (!id) file_.invalid(key, "an id is not an integer below " + std::to_string(kMaxEntries));
    const auto [by_content, fresh_content] = ids_.try_emplace(content, *id);
    const auto [by_id, fresh_id] = by_id_.try_emplace(*id, VocabularyEntry{content, {}, {}, {}, {}});
    if (fresh_content != fresh_id || by_content->second != *id) {
      file_.invalid(key, "id " + std::to_string(*id) + " and its content do not belong to each other alone");
    }
    return *id;
  }

  const TokenizerFields& file_;
  std::unordered_map<std::int64_t, VocabularyEntry> by_id_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

// Reads either spelling of a merge, ["a", "b"] or "a b".
std::pair<std::string, std::string> read_pair(const json& merge, const TokenizerFields& file, const std::string& key) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (!merge.is_string()) file.invalid(key, "must be a pair of strings");
  const auto text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) file.invalid(key, "must be a pair of strings");
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Merge> read_merges(const json& merges, const TokenizerFields& file, const EntryReader& entries) {
  if (!merges.is_array()) file.invalid("model.merges", "must be a list");
  if (merges.size() > kMaxMerges) file.invalid("model.merges", "is too long");
  std::vector<Merge> out;
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string key = "model.merges[" + std::to_string(rank) + "]";
    const auto [left, right] = read_pair(merges[rank], file, key);
    const Merge merge{entries.find(left), entries.find(right), entries.find(left + right)};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      file.invalid(key, "names something outside the vocabulary");
    }
    const auto pair = static_cast<std::uint64_t>(merge.left) << 32 | static_cast<std::uint32_t>(merge.right);
    if (!seen.insert(pair).second) file.invalid(key, "is repeated");
    out.push_back(merge);
  }
  return out;
}

BytePairOptions read_options(const TokenizerFields& model, const EntryReader& entries) {
  BytePairOptions out;
  out.fuse_unknown = model.flag("fuse_unk", false);
  out.byte_fallback = model.flag("byte_fallback", false);
  out.ignore_merges = model.flag("ignore_merges", false);
  if (model.find("unk_token") == nullptr) return out;
  out.unknown = entries.find(model.text("unk_token"));
  if (out.unknown < 0) model.invalid("unk_token", "names something outside the vocabulary");
  return out;
}

// Without this check, a character without a token would silently vanish from the model's input.
void check_bytes(const TokenizerFields& file, const TokenizerFile& out, const EntryReader& entries) {
  if (out.options.unknown >= 0) return;
  const bool spelled = out.pre_tokenizer.spells_bytes() || out.normalizer.spells_bytes();
  if (!spelled && !out.options.byte_fallback) {
    file.invalid("model.unk_token", "is missing, and text that no entry spells would be lost");
  }
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<unsigned char>(i);
    if (entries.find(spelled ? spelling_of_byte(byte) : fallback_spelling(byte)) < 0) {
      file.invalid("model.vocab", "byte " + std::to_string(i) + " has no entry");
    }
  }
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& where) {
  const json document = parse_strict_json(text, where);
  const TokenizerFields file(document, where, "");
  check_surroundings(file);
  const TokenizerFields model = file.object("model");
  check_model(model);

  TokenizerFile out;
  if (file.find("normalizer") != nullptr) out.normalizer = Normalizer::read(file.object("normalizer"));
  if (file.find("pre_tokenizer") != nullptr) out.pre_tokenizer = PreTokenizer::read(file.object("pre_tokenizer"));
  out.decoder = TokenDecoder::read(file.object("decoder"));
  EntryReader entries(file);
  entries.read_vocabulary(model.required("vocab"));
  if (const json* added = file.find("added_tokens")) entries.read_added(*added, out.normalizer, out.added);
  out.merges = read_merges(model.required("merges"), file, entries);
  out.options = read_options(model, entries);
  check_bytes(file, out, entries);
  out.entries = entries.take(out.decoder);
  if (file.find("post_processor") != nullptr) {
    out.post_processor = PostProcessor::read(file.object("post_processor"), out.entries.size());
  }
  return out;
}

}  // namespace slip
