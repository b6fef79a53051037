// SPDX-License-Identifier: Apache-2.0
#include "server/http/gatekeeper.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <iterator>

#include "common/error.h"
#include "common/escape_controls.h"
#include "server/http/authority.h"
#include "server/http/request_head.h"

namespace slip {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

Reply refusal(int status, const std::string& message, const std::string& code) {
  Reply reply = error_reply(status, {.message = message, .code = code});
  reply.close = true;  // the body, if any, stays unread
  return reply;
}

bool is_json(std::string_view content_type) {
  const std::string type = lower(content_type.substr(0, content_type.find(';')));
  const auto end = type.find_last_not_of(" \t");
  return end != std::string::npos && type.substr(0, end + 1) == "application/json";
}

// The first charset parameter of a media type that is not valid for JSON; nullopt if there is none.
std::optional<std::string> foreign_charset(std::string_view content_type) {
  constexpr std::string_view kRead[] = {"utf-8", "utf8", "us-ascii", "ascii"};
  for (auto at = content_type.find(';'); at != std::string_view::npos; at = content_type.find(';', at + 1)) {
    const std::string_view parameter = content_type.substr(at + 1, content_type.find(';', at + 1) - at - 1);
    const auto equals = parameter.find('=');
    if (equals == std::string_view::npos || lower(trimmed(parameter.substr(0, equals))) != "charset") continue;
    std::string_view value = trimmed(parameter.substr(equals + 1));
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
    if (std::find(std::begin(kRead), std::end(kRead), lower(value)) == std::end(kRead)) return std::string(value);
  }
  return std::nullopt;
}

std::optional<Reply> refuse_key(const ApiKeys& keys, const RequestMetadata& metadata, Principal& principal) {
  const auto given = metadata.authorization.value_or("");
  const bool bearer = lower(given.substr(0, kBearer.size())) == lower(kBearer);
  // One space or more stand before the key (RFC 9110, 11.4).
  const std::size_t begin = bearer ? given.find_first_not_of(' ', kBearer.size()) : std::string_view::npos;
  const ApiKey* found = keys.find(begin == std::string_view::npos ? std::string_view() : given.substr(begin));
  if (found == nullptr) {
    Reply reply = refusal(401, "send a valid API key as 'Authorization: Bearer KEY'", "invalid_api_key");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  principal.tenant = found->tenant;
  principal.key_name = found->name;
  principal.is_operator = keys.size() == 1 || found->is_operator;
  principal.may_ask_slo = keys.size() == 1 || found->may_ask_slo;
  principal.slo_tiers = found->slo_tiers;
  return std::nullopt;
}

constexpr std::string_view kSchemes[] = {"http://", "https://"};

// Valid in a host name by RFC 3986, but in an allow list more likely a mistake.
constexpr std::string_view kNoWildcards = "*,";

// Checks the form that browsers send, "https://example.org:8443", so that it can be compared byte for byte and
// returned.
void check_origin(const std::string& origin) {
  for (const std::string_view scheme : kSchemes) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view host = std::string_view(origin).substr(scheme.size());
    if (host_of_authority(host) && host.find_first_of(kNoWildcards) == std::string_view::npos && lower(host) == host) {
      return;
    }
  }
  throw Error(ErrorCode::kInvalidArgument, "the allowed origin '" + origin + "' is not like https://example.org",
              "scheme, host in lower case and port if it is not the usual one; no path, no *",
              "server.allowed_origins");
}

void check_host(const std::string& host) {
  if (host_of_authority(host) == host && host.find_first_of(kNoWildcards) == std::string::npos) return;
  throw Error(ErrorCode::kInvalidArgument, "the allowed host '" + host + "' is no plain host name",
              "without scheme, port and path", "server.allowed_hosts");
}

}  // namespace

Gatekeeper::Gatekeeper(const ServerOptions& options, ApiKeys keys)
    : hosts_({"localhost", "127.0.0.1", "[::1]"}), origins_(options.allowed_origins) {
  set_keys(std::move(keys));
  for (const auto& origin : origins_) check_origin(origin);
  for (const auto& host : options.allowed_hosts) {
    check_host(host);
    hosts_.push_back(lower(host));
  }
}

bool Gatekeeper::is_known_host(std::string_view host) const {
  const auto name = host_of_authority(host);
  return name && std::find(hosts_.begin(), hosts_.end(), lower(*name)) != hosts_.end();
}

bool Gatekeeper::is_own_origin(std::string_view origin) const {
  return std::any_of(std::begin(kSchemes), std::end(kSchemes), [&](std::string_view scheme) {
    return origin.starts_with(scheme) && is_known_host(origin.substr(scheme.size()));
  });
}

std::optional<Reply> Gatekeeper::refuse_host_or_origin(const RequestMetadata& metadata,
                                                       const Principal& principal) const {
  // A balancer's probe in HTTP/1.0 may have no Host; a browser's request always has one.
  const bool is_simple_probe = !metadata.host && is_probe(metadata.path);
  if (!is_simple_probe && (!metadata.host || !is_known_host(*metadata.host))) {
    return refusal(421, "this server does not answer for that Host; see server.allowed_hosts", "unknown_host");
  }
  if (metadata.origin && principal.allowed_origin.empty() && !is_own_origin(*metadata.origin)) {
    return refusal(403, "requests from that Origin are not allowed; see server.allowed_origins", "foreign_origin");
  }
  return std::nullopt;
}

std::optional<Reply> Gatekeeper::refuse(const RequestMetadata& metadata, Principal& principal) const {
  principal = {};
  if (metadata.origin && std::find(origins_.begin(), origins_.end(), *metadata.origin) != origins_.end()) {
    principal.allowed_origin = *metadata.origin;
  }
  const auto keys = this->keys();
  principal.is_operator = principal.may_ask_slo = keys->empty();
  if (keys->empty()) {
    if (auto refused = refuse_host_or_origin(metadata, principal)) return refused;
  }
  if (metadata.method == "OPTIONS" && !principal.allowed_origin.empty()) return std::nullopt;
  const bool open = keys->empty() || is_probe(metadata.path);
  return open ? std::nullopt : refuse_key(*keys, metadata, principal);
}

bool is_probe(std::string_view path) {
  constexpr std::string_view kProbes[] = {"/healthz", "/readyz", "/health", "/ping"};
  return std::find(std::begin(kProbes), std::end(kProbes), path) != std::end(kProbes);
}

std::optional<Reply> refuse_content_type(const RequestMetadata& metadata) {
  if (metadata.method != "POST") return std::nullopt;
  const std::string_view type = metadata.content_type.value_or("");
  if (!is_json(type)) {
    return refusal(415, "a POST must have Content-Type: application/json", "unsupported_media_type");
  }
  const auto charset = foreign_charset(type);
  if (!charset) return std::nullopt;
  return refusal(415,
                 "Content-Type has charset=" + escape_controls(charset->substr(0, 64)) +
                     ", but a body is read as UTF-8: send it in UTF-8",
                 "unsupported_media_type");
}

std::optional<Reply> refuse_content_encoding(const RequestMetadata& metadata) {
  const std::string encoding = lower(metadata.content_encoding.value_or(""));
  if (metadata.method != "POST" || encoding.empty() || encoding == "identity") return std::nullopt;
  Reply reply = error_reply(415, {.message = "Content-Encoding must be identity: bodies are not decompressed",
                                  .param = "Content-Encoding",
                                  .code = "unsupported_media_type"});
  reply.headers.emplace_back("Accept-Encoding", "identity");  // RFC 9110, 15.5.16
  reply.close = true;
  return reply;
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
