// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/draft_meta.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/json_document.h"
#include "checkpoints/strict_json.h"
#include "common/json_text.h"
#include "common/topic_name.h"

namespace slip {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kSha256HexDigits = 64;
constexpr std::size_t kVersionDigits = 6;
constexpr JsonFields::IntegerRange kCount{0, std::numeric_limits<std::int64_t>::max()};
constexpr JsonFields::NumberRange kShare{0, 1};

std::string number_or_null(double value) {
  return (std::isfinite(value) ? json(value) : json(nullptr)).dump();
}

std::string boolean(bool value) {
  return value ? "true" : "false";
}

bool is_sha256(const std::string& text) {
  return text.size() == kSha256HexDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::uint64_t count(const JsonFields& fields, const char* key) {
  return static_cast<std::uint64_t>(fields.optional_integer(key, kCount).value_or(0));
}

}  // namespace

// For files older than the key, which give only the parent's number. Only a later version that is not a rollback can
// have a parent in its own draft, since rollbacks republished the base draft's weights.
std::string parent_draft_of(const DraftMeta& meta) {
  if (!meta.parent_draft.empty()) return meta.parent_draft;
  const bool own = meta.parent > 0 && meta.parent < meta.version && meta.reason != "rollback";
  return own ? meta.draft : kBaseDraft;
}

// Written without nlohmann's tree: its destructor ends the process when memory is exhausted.
std::string to_json(const DraftMeta& meta) {
  const std::pair<const char*, std::string> members[] = {
      {"format", std::to_string(kFormat)},
      {"draft", json_quoted(meta.draft)},
      {"version", std::to_string(meta.version)},
      {"parent", std::to_string(meta.parent)},
      {"parent_draft", json_quoted(parent_draft_of(meta))},
      {"topic", json_quoted(meta.topic)},
      {"target", json_quoted(meta.target)},
      {"target_fingerprint", json_quoted(meta.target_fingerprint)},
      {"created_us", std::to_string(meta.created_us)},
      {"reason", json_quoted(meta.reason)},
      {"optimizer_steps", std::to_string(meta.optimizer_steps)},
      {"trained_requests", std::to_string(meta.trained_requests)},
      {"heldout_alpha_before", number_or_null(meta.heldout_alpha_before)},
      {"heldout_alpha", number_or_null(meta.heldout_alpha)},
      {"p_value", number_or_null(meta.p_value)},
      {"weights_sha256", json_quoted(meta.weights_sha256)},
      {"rolled_back", boolean(meta.rolled_back)},
      {"weights_retired", boolean(meta.weights_retired)},
  };
  std::string text = "{";
  for (const auto& [key, value] : members) {
    text.append(text.size() > 1 ? ",\n \"" : "\n \"").append(key).append("\": ").append(value);
  }
  return text + "\n}\n";
}

DraftMeta parse_draft_meta(const std::string& json_text, const std::string& where) {
  const JsonDocument document(parse_strict_json(json_text, where));
  const JsonFields fields(document.root(), where);
  fields.integer("format", {kFormat, kFormat});
  DraftMeta meta;
  meta.draft = fields.optional_string("draft").value_or("");
  if (!is_topic_name(meta.draft)) fields.refuse("draft", "is no draft name");
  meta.version = static_cast<std::uint64_t>(fields.integer("version", {1, kCount.high}));
  meta.parent = count(fields, "parent");
  meta.topic = fields.optional_string("topic").value_or("");
  meta.target = fields.optional_string("target").value_or("");
  meta.target_fingerprint = fields.optional_string("target_fingerprint").value_or("");
  meta.created_us = fields.optional_integer("created_us", kCount).value_or(0);
  meta.reason = fields.optional_string("reason").value_or("");
  meta.optimizer_steps = count(fields, "optimizer_steps");
  meta.trained_requests = count(fields, "trained_requests");
  meta.heldout_alpha_before = fields.optional_number("heldout_alpha_before", kShare).value_or(0);
  meta.heldout_alpha = fields.optional_number("heldout_alpha", kShare).value_or(0);
  meta.p_value = fields.optional_number("p_value", kShare).value_or(1);
  meta.weights_sha256 = fields.optional_string("weights_sha256").value_or("");
  if (!is_sha256(meta.weights_sha256)) fields.refuse("weights_sha256", "is not 64 hex digits");
  meta.rolled_back = fields.optional_boolean("rolled_back").value_or(false);
  meta.weights_retired = fields.optional_boolean("weights_retired").value_or(false);
  meta.parent_draft = fields.optional_string("parent_draft").value_or("");
  meta.parent_draft = parent_draft_of(meta);
  if (!is_topic_name(meta.parent_draft)) fields.refuse("parent_draft", "is no draft name");
  return meta;
}

std::optional<double> if_measured(const DraftMeta& meta, double figure) {
  return meta.reason == "canary" || meta.reason == "warmup" ? std::optional(figure) : std::nullopt;
}

std::string version_name(std::uint64_t version) {
  std::string digits = std::to_string(version);
  if (digits.size() < kVersionDigits) digits.insert(0, kVersionDigits - digits.size(), '0');
  return "v" + digits;
}

std::optional<std::uint64_t> parse_version_name(std::string_view name) {
  if (name.empty() || name.front() != 'v') return std::nullopt;
  std::uint64_t version = 0;
  const auto parsed = std::from_chars(name.data() + 1, name.data() + name.size(), version);
  const bool is_number = parsed.ec == std::errc{} && version > 0 && version <= kMaxVersion;
  return is_number && version_name(version) == name ? std::optional(version) : std::nullopt;
}

}  // namespace slip
