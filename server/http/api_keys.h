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

// What is kept of one API key. The name is for logs; the key itself is forgotten once its digest is made.
struct ApiKey {
  static constexpr std::size_t kMaxNameBytes = 64;

  std::string name;
  KeyLimits limits;
  bool is_operator = false;  // may read what all keys together did: /metrics
  TenantId tenant;           // a keyed hash, so that a stored tenant says nothing about who it is
  std::array<unsigned char, 32> digest{};

  friend bool operator==(const ApiKey&, const ApiKey&) = default;
};

// The keys that open the service. Immutable once made; any thread.
class ApiKeys {
 public:
  // What SLIPSTREAM_API_KEY held: keys with blanks between them, or nothing. Error{kInvalidArgument}, never with a key.
  static ApiKeys of_environment(const std::string& value);
  // The environment's, and those of `file` (mode 0600 or stricter; empty: none), which has one key a line and #
  // comments; behind the key may stand `name=LABEL`, `operator=true`, and `requests_in_flight=N`,
  // `requests_per_minute=N` and `tokens_per_minute=N`, which else are `fallback`'s. Error{kPermission |
  // kInvalidArgument} naming file and line, never a key.
  static ApiKeys load(const std::filesystem::path& file, const ApiKeys& environment, const KeyLimits& fallback = {});

  // Unnamed keys are called by their number. Error{kInvalidArgument} for a key that is none, or known already.
  void add(std::string_view key, std::string name = {}, const KeyLimits& limits = {}, bool is_operator = false);

  static constexpr std::size_t kShortKeyBytes = 16;  // a key of fewer can be guessed by trying

  bool any_is_short() const { return any_is_short_; }  // whether a key has fewer bytes than kShortKeyBytes
  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  const std::vector<ApiKey>& all() const { return keys_; }
  // Compared in constant time with every key there is; null when it is none of ours.
  const ApiKey* find(std::string_view key) const;

  friend bool operator==(const ApiKeys&, const ApiKeys&) = default;

 private:
  std::vector<ApiKey> keys_;
  bool any_is_short_ = false;
};

}  // namespace slip
