// SPDX-License-Identifier: Apache-2.0
#include "server/gatekeeper.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <cstring>
#include <sstream>

#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

constexpr std::size_t kMaxKeyBytes = 512;
constexpr std::uint64_t kMaxKeyFileBytes = 1U << 20;
constexpr std::string_view kBearer = "Bearer ";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// "localhost:8000" → "localhost", "[::1]:8000" → "[::1]".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(0, end + 1);
  }
  return host.substr(0, host.find(':'));
}

Reply refusal(int status, const std::string& message, const std::string& code) {
  Reply reply = error_reply(status, {.message = message, .code = code});
  reply.close = true;  // the body, if any, is not read
  return reply;
}

bool is_json(std::string_view content_type) {
  const std::string type = lower(content_type.substr(0, content_type.find(';')));
  const auto end = type.find_last_not_of(" \t");
  return end != std::string::npos && type.substr(0, end + 1) == "application/json";
}

void check_key_file(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    throw Error(ErrorCode::kNotFound, "no API key file " + file.string(), {}, "server.api_keys_file");
  }
  if ((status.st_mode & 077) != 0) {
    throw Error(ErrorCode::kPermission, "the API key file " + file.string() + " can be read by others",
                "chmod 600 " + file.string(), "server.api_keys_file");
  }
}

}  // namespace

void ApiKeys::add(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    throw Error(ErrorCode::kInvalidArgument, "an API key has " + std::to_string(key.size()) + " bytes; 512 at most",
                "make one with: openssl rand -hex 32");
  }
  Digest digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  digests_.push_back(digest);
}

ApiKeys ApiKeys::load(const std::filesystem::path& file, const std::string& environment) {
  ApiKeys keys;
  if (!environment.empty()) keys.add(environment);
  if (file.empty()) return keys;
  check_key_file(file);
  std::istringstream lines(read_file(file, kMaxKeyFileBytes));
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.add(std::string_view(line).substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
  }
  if (keys.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the API key file " + file.string() + " holds no key", {},
                "server.api_keys_file");
  }
  return keys;
}

std::optional<TenantId> ApiKeys::find(std::string_view key) const {
  Digest given;
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), given.data());
  bool found = false;
  for (const Digest& digest : digests_) found |= ::CRYPTO_memcmp(digest.data(), given.data(), given.size()) == 0;
  if (!found) return std::nullopt;
  // Keyed by the API key itself, so that a stored tenant says nothing about who it is.
  static constexpr std::string_view kPurpose = "slipstream tenant";
  Digest tenant;
  unsigned int n = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(std::min(key.size(), kMaxKeyBytes)),
         reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), tenant.data(), &n);
  TenantId id;
  std::memcpy(&id.value, tenant.data(), sizeof id.value);
  return id;
}

Gatekeeper::Gatekeeper(const ServerOptions& options, ApiKeys keys)
    : hosts_({"localhost", "127.0.0.1", "[::1]"}), origins_(options.allowed_origins), keys_(std::move(keys)) {
  for (const auto& host : options.allowed_hosts) hosts_.push_back(lower(host));
}

bool Gatekeeper::is_known_host(std::string_view host) const {
  return std::find(hosts_.begin(), hosts_.end(), lower(without_port(host))) != hosts_.end();
}

bool Gatekeeper::is_known_origin(std::string_view origin) const {
  if (std::find(origins_.begin(), origins_.end(), origin) != origins_.end()) return true;
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && is_known_host(origin.substr(kScheme.size()));
}

std::optional<Reply> Gatekeeper::refuse(const Visitor& visitor, TenantId& tenant) const {
  tenant = {};
  if (!visitor.one_host) return refusal(400, "the request must have exactly one Host header", "bad_request");
  if (keys_.empty()) {
    if (!visitor.host || !is_known_host(*visitor.host)) {
      return refusal(421, "this server does not answer for that Host; see server.allowed_hosts", "unknown_host");
    }
    if (visitor.origin && !is_known_origin(*visitor.origin)) {
      return refusal(403, "requests from that Origin are not allowed; see server.allowed_origins", "foreign_origin");
    }
  } else if (visitor.path != "/healthz" && visitor.path != "/readyz") {
    const auto given = visitor.authorization.value_or("");
    const bool bearer = lower(given.substr(0, kBearer.size())) == lower(kBearer);
    const auto found = keys_.find(bearer ? given.substr(kBearer.size()) : std::string_view());
    if (!found) {
      Reply reply = refusal(401, "send a valid API key as 'Authorization: Bearer KEY'", "invalid_api_key");
      reply.headers.emplace_back("WWW-Authenticate", "Bearer");
      return reply;
    }
    tenant = *found;
  }
  if (visitor.method == "POST" && !is_json(visitor.content_type.value_or(""))) {
    return refusal(415, "a POST must have Content-Type: application/json", "unsupported_media_type");
  }
  return std::nullopt;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  boost::system::error_code fault;
  const auto address = boost::asio::ip::make_address(host, fault);
  return !fault && address.is_loopback();
}

void require_key_beyond_loopback(const std::string& host, const ApiKeys& keys) {
  if (is_loopback(host) || !keys.empty()) return;
  throw Error(ErrorCode::kPermission, "binding to " + host + " without an API key would let anyone in",
              "set SLIPSTREAM_API_KEY or server.api_keys_file, or bind to 127.0.0.1", "server.host");
}

}  // namespace slip
