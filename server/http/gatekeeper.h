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

// The parts of a request head that decide whether the request may come in, before its body is read.
struct RequestMetadata {
  std::string_view method, path;
  std::optional<std::string_view> host, origin, authorization, content_type, content_encoding;
};

// The caller of an admitted request, as its key names it.
struct Principal {
  TenantId tenant;
  std::string key_name;        // empty: no keys are asked for
  bool is_operator = false;    // may read /metrics: no other key exists, or the keys file marks this one
  std::string allowed_origin;  // a listed browser origin that may read the answer; empty: none
};

// Without keys only loopback is bound, and the checks on Host and Origin keep web pages out (DNS rebinding, forms);
// with keys the key does. A listed origin's preflight passes without a key, since browsers send none. Any thread.
class Gatekeeper {
 public:
  // Error{kInvalidArgument} for an allowed origin or host that is none.
  Gatekeeper(const ServerOptions& options, ApiKeys keys);

  // The refusal, or nullopt and the principal.
  std::optional<Reply> refuse(const RequestMetadata& metadata, Principal& principal) const;
  std::shared_ptr<const ApiKeys> keys() const { return keys_.load(std::memory_order_acquire); }
  // For requests whose headers come from now on; what was let in before goes on.
  void set_keys(ApiKeys keys) {
    keys_.store(std::make_shared<const ApiKeys>(std::move(keys)), std::memory_order_release);
  }

 private:
  bool is_known_host(std::string_view host) const;
  bool is_own_origin(std::string_view origin) const;
  std::optional<Reply> refuse_stranger(const RequestMetadata& metadata, const Principal& principal) const;
  std::vector<std::string> hosts_, origins_;
  std::atomic<std::shared_ptr<const ApiKeys>> keys_;
};

// Whether `path` only says that the server lives or is ready: these need no key (S13).
bool is_probe(std::string_view path);
// 415 for a POST that is not JSON: no web page can send JSON elsewhere without asking first.
std::optional<Reply> refuse_content_type(const RequestMetadata& metadata);
// 415 for a POST whose body is compressed: it would be read as JSON that is not valid.
std::optional<Reply> refuse_content_encoding(const RequestMetadata& metadata);

bool is_loopback(const std::string& host);
// Error{kPermission} when a bind beyond loopback has no key to protect it.
void require_key_beyond_loopback(const std::string& host, const ApiKeys& keys);

}  // namespace slip
