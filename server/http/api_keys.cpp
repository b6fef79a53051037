// SPDX-License-Identifier: Apache-2.0
#include "server/http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <set>
#include <sstream>

#include "common/error.h"
#include "common/file.h"
#include "server/http/request_head.h"

namespace slip {
namespace {

constexpr std::size_t kMaxKeyBytes = 512;
constexpr std::uint64_t kMaxKeyFileBytes = 1U << 20;
constexpr const char* kField = "server.api_keys_file";

using Digest = std::array<unsigned char, 32>;

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  throw Error(ErrorCode::kInvalidArgument, what, hint, kField);
}

Digest digest_of(std::string_view key) {
  Digest digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

TenantId tenant_of(std::string_view key) {
  static constexpr std::string_view kPurpose = "slipstream tenant";
  Digest tenant;
  unsigned int n = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), tenant.data(), &n);
  TenantId id;
  std::memcpy(&id.value, tenant.data(), sizeof id.value);
  return id;
}

std::int64_t limit_of(std::string_view text, const std::string& where, const std::string& name, std::int64_t most) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
    refuse(where + ": " + name + " must be a whole number from 0 to " + std::to_string(most) + "; 0 sets no limit");
  }
  return value;
}

// Reads one `name=value` after a key. An unknown name is not repeated in the error, since it may be a key. `seen` has
// the names on its line.
void read_setting(std::string_view setting, const std::string& where, std::set<std::string, std::less<>>& seen,
                  ApiKey& entry) {
  const auto equals = setting.find('=');
  const std::string_view key = setting.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : setting.substr(equals + 1);
  if (key == "name") {
    if (!is_plain_name(value)) refuse(where + ": a key's name has 1 to 64 of A-Z a-z 0-9 . _ -");
    entry.name = value;
  } else if (key == "operator" || key == "slo") {
    if (value != "true" && value != "false") refuse(where + ": " + std::string(key) + " must be true or false");
    (key == "slo" ? entry.may_ask_slo : entry.is_operator) = value == "true";
  } else if (key == "slo_tiers") {
    for_each_item(value, [&](std::string_view tier) {
      if (!is_plain_name(tier)) refuse(where + ": slo_tiers= must be names of [slo] tiers with commas between them");
      if (std::ranges::count(entry.slo_tiers, tier) > 0)
        refuse(where + ": slo_tiers= names " + std::string(tier) + " twice");
      entry.slo_tiers.emplace_back(tier);
    });
  } else if (key == "requests_in_flight") {
    entry.limits.requests_in_flight =
        static_cast<int>(limit_of(value, where, "requests_in_flight", KeyLimits::kMostInFlight));
  } else if (key == "requests_per_minute") {
    entry.limits.requests_per_minute = limit_of(value, where, "requests_per_minute", KeyLimits::kMostPerMinute);
  } else if (key == "tokens_per_minute") {
    entry.limits.tokens_per_minute = limit_of(value, where, "tokens_per_minute", KeyLimits::kMostPerMinute);
  } else {
    refuse(where +
               ": behind a key may stand name=, operator=, slo=, slo_tiers=, requests_in_flight=, "
               "requests_per_minute= and tokens_per_minute=",
           "one key a line");
  }
  if (!seen.emplace(key).second) refuse(where + ": " + std::string(key) + "= stands there twice");
}

// Such a line lacks its key; the setting would become a key that others can guess.
bool begins_with_a_setting(std::string_view word) {
  constexpr std::string_view kSettings[] = {
      "name=", "operator=", "slo=", "slo_tiers=", "requests_in_flight=", "requests_per_minute=", "tokens_per_minute="};
  return std::any_of(std::begin(kSettings), std::end(kSettings),
                     [&](std::string_view setting) { return word.starts_with(setting); });
}

template <class Take>
void take_placed(const std::string& where, Take take) {
  try {
    take();
  } catch (const Error& error) {
    if (error.message().starts_with(where)) throw;
    throw Error(error.code(), where + ": " + error.message(), error.hint(), kField);
  }
}

void read_key_file(const std::filesystem::path& file, const KeyLimits& fallback, ApiKeys& keys) {
  require_private_file(file, "API key file", kField);
  std::istringstream lines(read_file(file, kMaxKeyFileBytes));
  const std::size_t before = keys.size();
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = file.string() + ":" + std::to_string(++number);
    std::istringstream words(line);
    std::string key, setting;
    if (!(words >> key) || key.front() == '#') continue;
    ApiKey entry{.limits = fallback};
    std::set<std::string, std::less<>> seen;
    if (begins_with_a_setting(key)) {
      refuse(where + ": the line begins with " + key.substr(0, key.find('=') + 1) + ", not with a key",
             "write the key first, then its settings");
    }
    while (words >> setting && setting.front() != '#') read_setting(setting, where, seen, entry);
    take_placed(where, [&] { keys.add(key, entry); });
  }
  if (keys.size() == before) refuse("the API key file " + file.string() + " holds no key");
}

}  // namespace

bool is_plain_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !text.empty() && text.size() <= ApiKey::kMaxNameBytes && std::all_of(text.begin(), text.end(), allowed);
}

void ApiKeys::add(std::string_view key, ApiKey settings) {
  const bool visible = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (key.empty() || key.size() > kMaxKeyBytes || !visible) {
    refuse("an API key has 1 to 512 visible ASCII characters", "make one with: openssl rand -hex 32");
  }
  ApiKey fresh = std::move(settings);
  fresh.is_named = !fresh.name.empty();
  if (!fresh.is_named) fresh.name = "key-" + std::to_string(keys_.size() + 1);
  fresh.tenant = tenant_of(key);
  fresh.digest = digest_of(key);
  for (const ApiKey& one : keys_) {
    if (one.name == fresh.name) refuse("two API keys are named " + one.name);
    if (one.digest == fresh.digest) refuse("the API keys " + one.name + " and " + fresh.name + " are the same");
  }
  keys_.push_back(std::move(fresh));
  any_is_short_ = any_is_short_ || key.size() < kShortKeyBytes;
}

ApiKeys ApiKeys::of_environment(const std::string& value) {
  ApiKeys keys;
  std::istringstream words(value);
  for (std::string key; words >> key;) {
    take_placed("SLIPSTREAM_API_KEY",
                [&] { keys.add(key, {.name = "environment-" + std::to_string(keys.size() + 1)}); });
  }
  return keys;
}

ApiKeys ApiKeys::load(const std::filesystem::path& file, const ApiKeys& environment, const KeyLimits& fallback) {
  ApiKeys keys = environment;
  for (ApiKey& key : keys.keys_) key.limits = fallback;
  if (!file.empty()) read_key_file(file, fallback, keys);
  return keys;
}

const ApiKey* ApiKeys::find(std::string_view key) const {
  const Digest given = digest_of(key);
  const ApiKey* found = nullptr;
  for (const ApiKey& one : keys_) {
    if (::CRYPTO_memcmp(one.digest.data(), given.data(), given.size()) == 0) found = &one;
  }
  return found;
}

}  // namespace slip
