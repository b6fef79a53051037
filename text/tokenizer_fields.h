// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace slip {

// One object of a tokenizer.json and its path, so that every error names the full key. Borrows the document. All
// errors: Error{kInvalidArgument | kUnsupported}, message "file: path.key: …", param the path and key.
class TokenizerFields {
 public:
  static constexpr std::size_t kMaxTextBytes = 4096;  // the longest entry seen in public vocabularies is 512
  static constexpr std::size_t kMaxSteps = 64;        // of one component; public files have up to 10

  // `path` is "" for the document's root.
  TokenizerFields(const nlohmann::json& object, std::string where, std::string path);

  const nlohmann::json* find(const char* key) const;  // nullptr when absent or null
  const nlohmann::json& required(const char* key) const;
  TokenizerFields object(const char* key) const;
  std::vector<TokenizerFields> objects(const char* key) const;  // a list of at most kMaxSteps
  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::string character(const char* key) const;  // exactly one character, as UTF-8
  bool flag(const char* key) const;
  bool flag(const char* key, bool otherwise) const;
  std::int64_t count(const char* key) const;
  std::string type() const { return text("type"); }

  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  const std::string& where() const { return where_; }
  [[noreturn]] void unsupported(const std::string& key, const std::string& what) const;
  [[noreturn]] void invalid(const std::string& key, const std::string& why) const;

 private:
  const nlohmann::json* object_;
  std::string where_, path_;
};

}  // namespace slip
