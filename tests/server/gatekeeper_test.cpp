// SPDX-License-Identifier: Apache-2.0
#include "server/gatekeeper.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/error.h"

namespace slip {
namespace {

int status(const Gatekeeper& gatekeeper, const Visitor& visitor) {
  TenantId tenant;
  const auto refusal = gatekeeper.refuse(visitor, tenant);
  return refusal ? refusal->status : 0;
}

Visitor get(std::string_view host, std::optional<std::string_view> origin = std::nullopt) {
  return {.method = "GET", .path = "/v1/models", .host = host, .origin = origin};
}

TEST(Gatekeeper, KnowsItsHosts) {
  const Gatekeeper gatekeeper({.allowed_hosts = {"Box.example"}}, {});
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "box.example:80"}) {
    EXPECT_EQ(status(gatekeeper, get(host)), 0) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil", "", "[::2]", "127.0.0.2"}) {
    EXPECT_EQ(status(gatekeeper, get(host)), 421) << host;
  }
  Visitor without = get("localhost");
  without.host.reset();
  EXPECT_EQ(status(gatekeeper, without), 421);
  Visitor two = get("localhost");
  two.one_host = false;
  EXPECT_EQ(status(gatekeeper, two), 400);
}

TEST(Gatekeeper, KnowsItsOrigins) {
  const Gatekeeper gatekeeper({.allowed_origins = {"https://tools.example"}}, {});
  for (const char* origin : {"http://localhost:3000", "http://127.0.0.1", "https://tools.example"}) {
    EXPECT_EQ(status(gatekeeper, get("localhost", origin)), 0) << origin;
  }
  for (const char* origin : {"https://evil.example", "null", "https://tools.example.evil", "file://", "http://evil"}) {
    EXPECT_EQ(status(gatekeeper, get("localhost", origin)), 403) << origin;
  }
}

TEST(Gatekeeper, PostsMustBeJson) {
  const Gatekeeper gatekeeper({}, {});
  Visitor post{.method = "POST", .path = "/v1/completions", .host = "localhost"};
  EXPECT_EQ(status(gatekeeper, post), 415);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""}) {
    post.content_type = type;
    EXPECT_EQ(status(gatekeeper, post), 415) << type;
  }
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/json ;x"}) {
    post.content_type = type;
    EXPECT_EQ(status(gatekeeper, post), 0) << type;
  }
}

TEST(Gatekeeper, KeysOpenAndTellTenantsApart) {
  ApiKeys keys;
  keys.add("first-key-of-two");
  keys.add("second-key-of-two");
  const Gatekeeper gatekeeper({}, keys);
  Visitor visitor = get("any.example");
  EXPECT_EQ(status(gatekeeper, visitor), 401);
  for (const char* wrong : {"Bearer", "Bearer ", "Bearer first-key-of-tw", "Basic first-key-of-two", "first-key-of-two",
                            "Bearer first-key-of-two "}) {
    visitor.authorization = wrong;
    EXPECT_EQ(status(gatekeeper, visitor), 401) << wrong;
  }
  TenantId first, second;
  visitor.authorization = "Bearer first-key-of-two";
  EXPECT_FALSE(gatekeeper.refuse(visitor, first));
  visitor.authorization = "bearer second-key-of-two";
  EXPECT_FALSE(gatekeeper.refuse(visitor, second));
  EXPECT_NE(first, second);
  EXPECT_NE(first, TenantId{});
  visitor.authorization.reset();
  visitor.path = "/healthz";
  EXPECT_EQ(status(gatekeeper, visitor), 0);
}

class KeyFile : public ::testing::Test {
 protected:
  KeyFile() {
    path_ = std::filesystem::temp_directory_path() / ("slip-keys-" + std::to_string(::getpid()));
    std::ofstream(path_) << "# ours\n  a-key-with-spaces-around  \n\nsecond-key-here\n";
  }
  ~KeyFile() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(KeyFile, IsReadWhenNobodyElseCan) {
  ::chmod(path_.c_str(), 0600);
  const ApiKeys keys = ApiKeys::load(path_, "from-the-environment");
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_TRUE(keys.find("a-key-with-spaces-around"));
  EXPECT_TRUE(keys.find("from-the-environment"));
  EXPECT_FALSE(keys.find("# ours"));
}

TEST_F(KeyFile, IsRefusedWhenOthersCanReadIt) {
  ::chmod(path_.c_str(), 0640);
  try {
    ApiKeys::load(path_, "");
    FAIL() << "a key file that others can read was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermission);
    EXPECT_EQ(error.message().find("second-key"), std::string::npos);
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

}  // namespace
}  // namespace slip
