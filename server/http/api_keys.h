// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "server/http/options.h"

namespace slip {

// One API key as stored: its digest, name and limits. The name is for logs; the key itself is not kept.
struct ApiKey {
  static constexpr std::size_t kMaxNameBytes = 64;

  std::string name;
  KeyLimits limits;
  bool is_operator = false;            // may read /metrics, which counts all keys together
  bool may_ask_slo = false;            // may ask for a speed of its answers, at the cost of others'
  std::vector<std::string> slo_tiers;  // and, if not for any, for these by name
  bool is_named = false;               // false: `name` is its number, which may become another key's
  TenantId tenant;                     // a keyed hash, so that a stored tenant does not reveal the key
  std::array<unsigned char, 32> digest{};

  friend bool operator==(const ApiKey&, const ApiKey&) = default;
};

// Whether a text may name a key or a tier: 1 to 64 of A-Z a-z 0-9 . _ - and nothing else.
bool is_plain_name(std::string_view text);

// The API keys that are accepted. Immutable once made; any thread.
class ApiKeys {
 public:
  // Reads the value of SLIPSTREAM_API_KEY: keys separated by blanks, or none. Error{kInvalidArgument}, which never
  // contains a key.
  static ApiKeys of_environment(const std::string& value);
  // The environment's keys and those of `file` (mode 0600 or stricter; empty: no file). The file has one key per line
  // and # comments. After a key may follow `name=LABEL`, `operator=true`, `slo=true`, `slo_tiers=NAME,…`,
  // `requests_in_flight=N`, `requests_per_minute=N` and `tokens_per_minute=N`; missing limits come from `fallback`.
  // Error{kPermission | kInvalidArgument} naming file and line, never a key.
  static ApiKeys load(const std::filesystem::path& file, const ApiKeys& environment, const KeyLimits& fallback = {});

  // Adds a key with its name, limits and rights. An unnamed one is named by its number. Error{kInvalidArgument} for an
  // invalid or repeated key.
  void add(std::string_view key, ApiKey settings = {});

  static constexpr std::size_t kShortKeyBytes = 16;  // shorter keys can be guessed by trying

  bool any_is_short() const { return any_is_short_; }  // whether a key has fewer bytes than kShortKeyBytes
  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  const std::vector<ApiKey>& all() const { return keys_; }
  // Compares in constant time with every key; null if none matches.
  const ApiKey* find(std::string_view key) const;

  friend bool operator==(const ApiKeys&, const ApiKeys&) = default;

 private:
  std::vector<ApiKey> keys_;
  bool any_is_short_ = false;
};

}  // namespace slip
