// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "server/options.h"
#include "server/reply.h"

namespace slip {

// API keys as SHA-256 digests: the keys themselves are forgotten once read. A given key is compared in constant time
// with every one of them.
class ApiKeys {
 public:
  // From `file` (mode 0600 or stricter, one key a line, # comments) and from `environment` (one key), either may be
  // empty. Error{kPermission | kInvalidArgument} never naming a key.
  static ApiKeys load(const std::filesystem::path& file, const std::string& environment);

  bool empty() const { return digests_.empty(); }
  std::size_t size() const { return digests_.size(); }
  void add(std::string_view key);
  // The key's tenant, nullopt when it is none of ours.
  std::optional<TenantId> find(std::string_view key) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  std::vector<Digest> digests_;
};

// What decides whether a request may come in, before its body is read.
struct Visitor {
  std::string_view method, path;
  std::optional<std::string_view> host, origin, authorization, content_type;
  bool one_host = true;  // exactly one Host header
};

// Without keys only loopback is bound, and the checks on Host and Origin keep web pages out (DNS rebinding, forms);
// with keys the key does. Immutable; any thread.
class Gatekeeper {
 public:
  Gatekeeper(const ServerOptions& options, ApiKeys keys);

  // The refusal, or nullopt and the tenant.
  std::optional<Reply> refuse(const Visitor& visitor, TenantId& tenant) const;

 private:
  bool is_known_host(std::string_view host) const;
  bool is_known_origin(std::string_view origin) const;
  std::vector<std::string> hosts_, origins_;
  ApiKeys keys_;
};

bool is_loopback(const std::string& host);
// Error{kPermission} when a bind beyond loopback has no key to protect it.
void require_key_beyond_loopback(const std::string& host, const ApiKeys& keys);

}  // namespace slip
