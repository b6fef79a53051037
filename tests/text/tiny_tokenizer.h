// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/checkpoints/temporary_folder.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace slip::testing {

// 256 bytes (id = byte), then aa, aaaa, aaaaaaaa, ab (ids 256 … 259), then <|end|> and <|user|> (260, 261; special) and
// "[pad]" (262; added but not special).
inline nlohmann::json tiny_tokenizer_json() {
  nlohmann::json vocabulary, merges = nlohmann::json::array();
  for (int byte = 0; byte < 256; ++byte) vocabulary[spelling_of_byte(static_cast<unsigned char>(byte))] = byte;
  const auto merge = [&](const std::string& left, const std::string& right, int id) {
    vocabulary[left + right] = id;
    merges.push_back({left, right});
  };
  merge("a", "a", 256);
  merge("aa", "aa", 257);
  merge("aaaa", "aaaa", 258);
  merge("a", "b", 259);
  const auto added = [](int id, const char* content, bool special) {
    return nlohmann::json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                          {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  const nlohmann::json split{{"type", "Split"},
                             {"pattern", {{"Regex", R"( ?\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s+)"}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  const nlohmann::json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"normalizer", nullptr},
          {"added_tokens", {added(260, "<|end|>", true), added(261, "<|user|>", true), added(262, "[pad]", false)}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"byte_fallback", false}, {"vocab", vocabulary}, {"merges", merges}}}};
}

inline std::shared_ptr<const Tokenizer> load_tokenizer(const nlohmann::json& json) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", json.dump());
  return Tokenizer::load(folder.path());
}

inline std::shared_ptr<const Tokenizer> tiny_tokenizer() {
  return load_tokenizer(tiny_tokenizer_json());
}

}  // namespace slip::testing
