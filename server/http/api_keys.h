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
  bool is_operator = false;  // may read /metrics, which counts all keys together
  bool may_ask_slo = false;  // may ask for a speed of its answers, at the cost of others'
  bool is_named = false;     // false: `name` is its number, which may become another key's
  TenantId tenant;           // a keyed hash, so that a stored tenant does not reveal the key
  std::array<unsigned char, 32> digest{};

  friend bool operator==(const ApiKey&, const ApiKey&) = default;
};

// The API keys that are accepted. Immutable once made; any thread.
class ApiKeys {
 public:
  // Reads the value of SLIPSTREAM_API_KEY: keys separated by blanks, or none. Error{kInvalidArgument}, which never
  // contains a key.
  static ApiKeys of_environment(const std::string& value);
  // The environment's keys and those of `file` (mode 0600 or stricter; empty: no file). The file has one key per line
  // and # comments. After a key may follow `name=LABEL`, `operator=true`, `slo=true`, `requests_in_flight=N`,
  // `requests_per_minute=N` and `tokens_per_minute=N`; missing limits come from `fallback`. Error{kPermission |
  // kInvalidArgument} naming file and line, never a key.
  static ApiKeys load(const std::filesystem::path& file, const ApiKeys& environment, const KeyLimits& fallback = {});

  // Unnamed keys are named by their number. Error{kInvalidArgument} for an invalid or repeated key.
  void add(std::string_view key, std::string name = {}, const KeyLimits& limits = {}, bool is_operator = false,
           bool may_ask_slo = false);

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
