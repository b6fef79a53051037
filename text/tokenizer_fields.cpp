// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_fields.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/strict_json.h"
#include "common/error.h"
#include "text/utf8.h"

namespace slip {

using nlohmann::json;

TokenizerFields::TokenizerFields(const json& object, std::string where, std::string path)
    : object_(&object), where_(std::move(where)), path_(std::move(path)) {
  if (!object.is_object()) {
    throw Error(ErrorCode::kInvalidArgument,
                where_ + ": " + (path_.empty() ? "the file" : path_) + ": must be an object", {}, path_);
  }
}

const json* TokenizerFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& TokenizerFields::required(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) invalid(key, "is missing");
  return *value;
}

TokenizerFields TokenizerFields::object(const char* key) const {
  return {required(key), where_, path_of(key)};
}

std::vector<TokenizerFields> TokenizerFields::objects(const char* key) const {
  const json& list = required(key);
  if (!list.is_array()) invalid(key, "must be a list");
  if (list.size() > kMaxSteps) invalid(key, "has more than " + std::to_string(kMaxSteps) + " steps");
  std::vector<TokenizerFields> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    out.emplace_back(list[i], where_, path_of(key) + "[" + std::to_string(i) + "]");
  }
  return out;
}

std::string TokenizerFields::text(const char* key) const {
  const json& value = required(key);
  if (!value.is_string()) invalid(key, "must be a string");
  auto text = value.get<std::string>();
  if (text.size() > kMaxTextBytes) invalid(key, "is over " + std::to_string(kMaxTextBytes) + " bytes");
  return text;
}

std::string TokenizerFields::text(const char* key, const std::string& otherwise) const {
  return find(key) == nullptr ? otherwise : text(key);
}

std::string TokenizerFields::character(const char* key) const {
  std::string one = text(key);
  if (one.empty() || next_utf8(one).bytes != one.size()) invalid(key, "must be one character");
  return one;
}

bool TokenizerFields::flag(const char* key) const {
  const json& value = required(key);
  if (!value.is_boolean()) invalid(key, "must be true or false");
  return value.get<bool>();
}

bool TokenizerFields::flag(const char* key, bool otherwise) const {
  return find(key) == nullptr ? otherwise : flag(key);
}

std::int64_t TokenizerFields::count(const char* key) const {
  constexpr std::int64_t kMaxCount = 1 << 20;
  const auto value = exact_integer(required(key), {0, kMaxCount});
  if (!value) invalid(key, "must be an integer from 0 to " + std::to_string(kMaxCount));
  return *value;
}

void TokenizerFields::unsupported(const std::string& key, const std::string& what) const {
  throw Error(ErrorCode::kUnsupported, where_ + ": " + path_of(key) + ": " + what + " is not supported", {},
              path_of(key));
}

void TokenizerFields::invalid(const std::string& key, const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, where_ + ": " + path_of(key) + ": " + why, {}, path_of(key));
}

}  // namespace slip
