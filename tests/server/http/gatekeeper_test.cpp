// SPDX-License-Identifier: Apache-2.0
#include "server/http/gatekeeper.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace slip {
namespace {

int status(const Gatekeeper& gatekeeper, const RequestMetadata& metadata) {
  Principal principal;
  const auto refusal = gatekeeper.refuse(metadata, principal);
  return refusal ? refusal->status : 0;
}

RequestMetadata get(std::string_view host, std::optional<std::string_view> origin = std::nullopt) {
  return {.method = "GET", .path = "/v1/models", .host = host, .origin = origin};
}

TEST(Gatekeeper, KnowsItsHosts) {
  const Gatekeeper gatekeeper({.allowed_hosts = {"Box.example"}}, {});
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "box.example:80"}) {
    EXPECT_EQ(status(gatekeeper, get(host)), 0) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil", "", "[::2]", "127.0.0.2",
                           "127.0.0.1:80@evil.com", "[::1]:80.evil.com", "[::1]evil.com", "localhost:80.evil.com"}) {
    EXPECT_EQ(status(gatekeeper, get(host)), 421) << host;
  }
  RequestMetadata without = get("localhost");
  without.host.reset();
  EXPECT_EQ(status(gatekeeper, without), 421);
  without.path = "/healthz";
  EXPECT_EQ(status(gatekeeper, without), 0) << "a balancer's probe in HTTP/1.0";
  RequestMetadata foreign = get("evil.example");
  foreign.path = "/healthz";
  EXPECT_EQ(status(gatekeeper, foreign), 421);
}

TEST(Gatekeeper, KnowsItsOrigins) {
  const Gatekeeper gatekeeper({.allowed_origins = {"https://tools.example"}}, {});
  for (const char* origin :
       {"http://localhost:3000", "http://127.0.0.1", "https://localhost:8443", "https://tools.example"}) {
    EXPECT_EQ(status(gatekeeper, get("localhost", origin)), 0) << origin;
  }
  for (const char* origin : {"https://evil.example", "null", "https://tools.example.evil", "file://", "http://evil",
                             "http://localhost:80.evil.com", "http://127.0.0.1:80@evil.com", "http://localhost/"}) {
    EXPECT_EQ(status(gatekeeper, get("localhost", origin)), 403) << origin;
  }
}

TEST(Gatekeeper, PostsMustBeJson) {
  RequestMetadata post{.method = "POST", .path = "/v1/completions", .host = "localhost"};
  ASSERT_TRUE(refuse_content_type(post));
  EXPECT_EQ(refuse_content_type(post)->status, 415);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""}) {
    post.content_type = type;
    EXPECT_TRUE(refuse_content_type(post)) << type;
  }
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/json ;x"}) {
    post.content_type = type;
    EXPECT_FALSE(refuse_content_type(post)) << type;
  }
  post.method = "GET";
  post.content_type.reset();
  EXPECT_FALSE(refuse_content_type(post));
}

// A body in UTF-16 was read as UTF-8, and its client told that its JSON is not valid.
TEST(Gatekeeper, ACharsetThatIsNotReadIsNamed) {
  RequestMetadata post{.method = "POST", .path = "/v1/completions", .host = "localhost"};
  for (const char* type :
       {"application/json; charset=utf-16", "application/json;CHARSET=\"utf-16\"",
        "application/json; x=1 ; charset = utf-16", "application/json; charset=utf-8; charset=utf-16"}) {
    post.content_type = type;
    const auto refusal = refuse_content_type(post);
    ASSERT_TRUE(refusal) << type;
    EXPECT_EQ(refusal->status, 415);
    EXPECT_NE(refusal->body.find("charset=utf-16"), std::string::npos) << refusal->body;
  }
  for (const char* type :
       {"application/json; charset=UTF-8", "application/json;charset=\"utf-8\"", "application/json; charset=us-ascii",
        "application/json; profile=utf-16", "application/json;"}) {
    post.content_type = type;
    EXPECT_FALSE(refuse_content_type(post)) << type;
  }
}

TEST(Gatekeeper, ProbesAreFourRoutes) {
  for (const char* path : {"/healthz", "/readyz", "/health", "/ping"}) EXPECT_TRUE(is_probe(path)) << path;
  for (const char* path : {"/", "", "/healthz/", "/metrics", "/health2", "/v1/models"}) EXPECT_FALSE(is_probe(path));
}

TEST(Gatekeeper, KeysOpenAndTellTenantsApart) {
  ApiKeys keys;
  keys.add("first-key-of-two");
  keys.add("second-key-of-two");
  const Gatekeeper gatekeeper({}, keys);
  RequestMetadata metadata = get("any.example");
  EXPECT_EQ(status(gatekeeper, metadata), 401);
  for (const char* wrong : {"Bearer", "Bearer ", "Bearer first-key-of-tw", "Basic first-key-of-two", "first-key-of-two",
                            "Bearer first-key-of-two ", "Bearer    "}) {
    metadata.authorization = wrong;
    EXPECT_EQ(status(gatekeeper, metadata), 401) << wrong;
  }
  Principal first, second;
  metadata.authorization = "Bearer first-key-of-two";
  EXPECT_FALSE(gatekeeper.refuse(metadata, first));
  metadata.authorization = "bearer   second-key-of-two";
  EXPECT_FALSE(gatekeeper.refuse(metadata, second)) << "RFC 9110, 11.4: one space or more";
  EXPECT_NE(first.tenant, second.tenant);
  EXPECT_NE(first.tenant, TenantId{});
  EXPECT_EQ(second.key_name, "key-2");
  metadata.authorization.reset();
  metadata.path = "/healthz";
  EXPECT_EQ(status(gatekeeper, metadata), 0);
}

// What the gatekeeper says of a request with this key.
Principal principal_of(const ApiKeys& keys, std::string_view key) {
  Principal principal;
  RequestMetadata metadata = get("localhost");
  const std::string bearer = "Bearer " + std::string(key);
  metadata.authorization = bearer;
  EXPECT_FALSE(Gatekeeper({}, keys).refuse(metadata, principal));
  return principal;
}

// Figures of /metrics count every key's requests.
TEST(Gatekeeper, KnowsItsOperators) {
  ApiKeys keys;
  EXPECT_TRUE(principal_of(keys, "none-is-needed").is_operator);
  keys.add("first-key");
  EXPECT_TRUE(principal_of(keys, "first-key").is_operator) << "there are no others";
  keys.add("second-key", {.name = "watch", .is_operator = true});
  EXPECT_FALSE(principal_of(keys, "first-key").is_operator);
  EXPECT_TRUE(principal_of(keys, "second-key").is_operator);
}

TEST(Gatekeeper, KnowsWhoMayAskForASpeed) {
  ApiKeys keys;
  EXPECT_TRUE(principal_of(keys, "none-is-needed").may_ask_slo);
  keys.add("first-key");
  EXPECT_TRUE(principal_of(keys, "first-key").may_ask_slo) << "there are no others";
  keys.add("second-key", {.name = "fast", .may_ask_slo = true});
  EXPECT_FALSE(principal_of(keys, "first-key").may_ask_slo);
  EXPECT_TRUE(principal_of(keys, "second-key").may_ask_slo);
  keys.add("third-key", {.name = "tiered", .slo_tiers = {"soon"}});
  EXPECT_FALSE(principal_of(keys, "third-key").may_ask_slo);
  EXPECT_EQ(principal_of(keys, "third-key").slo_tiers, std::vector<std::string>{"soon"});
}

// Browsers ask without a key whether they may send one; only listed origins are told.
TEST(Gatekeeper, PreflightsOfListedOriginsNeedNoKey) {
  ApiKeys keys;
  keys.add("the-one-and-only-key");
  const Gatekeeper gatekeeper({.allowed_origins = {"https://tools.example"}}, keys);
  RequestMetadata preflight{
      .method = "OPTIONS", .path = "/v1/models", .host = "any", .origin = "https://tools.example"};
  Principal principal;
  EXPECT_FALSE(gatekeeper.refuse(preflight, principal));
  EXPECT_EQ(principal.allowed_origin, "https://tools.example");
  preflight.origin = "https://evil.example";
  EXPECT_EQ(status(gatekeeper, preflight), 401);
  RequestMetadata foreign = get("any", "https://evil.example");
  foreign.authorization = "Bearer the-one-and-only-key";
  EXPECT_FALSE(gatekeeper.refuse(foreign, principal)) << "the key is what counts";
  EXPECT_EQ(principal.allowed_origin, "") << "but no browser may read the answer";
  EXPECT_EQ(principal.key_name, "key-1");
}

TEST(Gatekeeper, OnlyOriginsAndHostsCanBeAllowed) {
  for (const char* origin : {"*", "https://*.example", "https://tools.example/", "tools.example", "https://", "null",
                             "https://Tools.example", "https://a\r\nb"}) {
    EXPECT_THROW(Gatekeeper({.allowed_origins = {origin}}, {}), Error) << origin;
  }
  for (const char* host : {"", "http://box", "box:80", "box/x", "a b"}) {
    EXPECT_THROW(Gatekeeper({.allowed_hosts = {host}}, {}), Error) << host;
  }
}

TEST(Bind, BeyondLoopbackNeedsAKey) {
  ApiKeys keys;
  for (const char* host : {"127.0.0.1", "::1", "localhost", "127.8.8.8"}) {
    EXPECT_NO_THROW(require_key_beyond_loopback(host, keys)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.168.1.5", "example.org"}) {
    EXPECT_THROW(require_key_beyond_loopback(host, keys), Error) << host;
  }
  keys.add("some-key-or-other");
  EXPECT_NO_THROW(require_key_beyond_loopback("0.0.0.0", keys));
}

// A key of one character opened a service to everybody without a word.
TEST(Bind, AShortKeyIsKnown) {
  ApiKeys keys;
  keys.add("sixteen-letters!");
  EXPECT_FALSE(keys.any_is_short());
  keys.add("fifteen-letters");
  EXPECT_TRUE(keys.any_is_short());
  EXPECT_TRUE(ApiKeys::of_environment("x").any_is_short());
}

}  // namespace
}  // namespace slip
