// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "server/http/api_keys.h"
#include "server/http/options.h"
#include "server/http/reply.h"

namespace slip {

// The parts of a request head that decide about access, before the body is read.
struct RequestMetadata {
  std::string_view method, path;
  std::optional<std::string_view> host, origin, authorization, content_type, content_encoding;
};

// The authenticated sender of a request.
struct Principal {
  TenantId tenant;
  std::string key_name;                // empty: no keys are configured
  bool is_operator = false;            // may read /metrics: no keys are configured, or the keys file marks this key
  bool may_ask_slo = false;            // may ask for a speed, which slows others down: likewise
  std::vector<std::string> slo_tiers;  // the speeds by name that it may ask for, if not any
  std::string allowed_origin;          // the request's origin, if it is listed; empty: none
};

// Access control. Without keys the server binds to loopback only, and the checks of Host and Origin block web pages
// (DNS rebinding, forms); with keys the key decides. A listed origin's preflight needs no key, since browsers send
// none. Any thread.
class Gatekeeper {
 public:
  // Error{kInvalidArgument} for a malformed allowed origin or host.
  Gatekeeper(const ServerOptions& options, ApiKeys keys);

  // The refusal; or nullopt, and `principal` is filled in.
  std::optional<Reply> refuse(const RequestMetadata& metadata, Principal& principal) const;
  std::shared_ptr<const ApiKeys> keys() const { return keys_.load(std::memory_order_acquire); }
  // Applies to requests whose headers arrive later; accepted ones go on.
  void set_keys(ApiKeys keys) {
    keys_.store(std::make_shared<const ApiKeys>(std::move(keys)), std::memory_order_release);
  }

 private:
  bool is_known_host(std::string_view host) const;
  bool is_own_origin(std::string_view origin) const;
  std::optional<Reply> refuse_host_or_origin(const RequestMetadata& metadata, const Principal& principal) const;
  std::vector<std::string> hosts_, origins_;
  std::atomic<std::shared_ptr<const ApiKeys>> keys_;
};

// Whether `path` is a liveness or readiness probe, which needs no key (docs/security.md, S13).
bool is_probe(std::string_view path);
// 415 for a POST that is not JSON. A web page can send JSON to another origin only after a preflight.
std::optional<Reply> refuse_content_type(const RequestMetadata& metadata);
// 415 for a POST with a compressed body, which would otherwise be reported as invalid JSON.
std::optional<Reply> refuse_content_encoding(const RequestMetadata& metadata);

bool is_loopback(const std::string& host);
// Error{kPermission} when a bind beyond loopback has no key.
void require_key_beyond_loopback(const std::string& host, const ApiKeys& keys);

}  // namespace slip
