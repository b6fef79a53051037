// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace slip {

// Strongly typed integer ids: passing a topic for a draft does not compile.
template <class Tag, class Value>
struct Id {
  Value value{};
  friend bool operator==(Id, Id) = default;
  friend auto operator<=>(Id, Id) = default;
};

using RequestId = Id<struct RequestTag, std::uint64_t>;
using TenantId = Id<struct TenantTag, std::uint64_t>;  // keyed hash of the API key; 0 without keys
using NameHash = Id<struct NameTag, std::uint64_t>;    // of the id that a client gave its call; 0: it gave none
using DraftId = Id<struct DraftTag, std::uint32_t>;    // index in the process's draft registry
using TopicId = Id<struct TopicTag, std::uint32_t>;    // index in the router's topic table

// FNV-1a. Stored with records: never change it. A clash makes a purge reach one record more, of the same API key.
inline NameHash name_hash(std::string_view name) {
  if (name.empty()) return {};
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return NameHash{hash == 0 ? 1 : hash};
}

// The source of a request's topic: none, the client's label, or the classifier.
enum class TopicSource : std::uint8_t { kNone, kLabel, kInferred };
inline const char* topic_source_name(TopicSource source) {
  return source == TopicSource::kLabel ? "label" : source == TopicSource::kInferred ? "inferred" : "none";
}

// The router's decision. The engine copies it along and never reads it.
struct RouteTag {
  TopicId topic;
  DraftId draft;
  TopicSource source = TopicSource::kNone;
};

}  // namespace slip

template <class Tag, class Value>
struct std::hash<slip::Id<Tag, Value>> {
  std::size_t operator()(slip::Id<Tag, Value> id) const noexcept { return std::hash<Value>{}(id.value); }
};
