// SPDX-License-Identifier: Apache-2.0
#include "server/http/authority.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(Authority, TheHostStandsBeforeItsPort) {
  EXPECT_EQ(host_of_authority("localhost"), "localhost");
  EXPECT_EQ(host_of_authority("localhost:8000"), "localhost");
  EXPECT_EQ(host_of_authority("localhost:"), "localhost") << "RFC 3986: the port may be empty";
  EXPECT_EQ(host_of_authority("LocalHost:65535"), "LocalHost");
  EXPECT_EQ(host_of_authority("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(host_of_authority("[::1]"), "[::1]");
  EXPECT_EQ(host_of_authority("[::ffff:127.0.0.1]:8000"), "[::ffff:127.0.0.1]");
  EXPECT_EQ(host_of_authority("my_service.example"), "my_service.example");
}

TEST(Authority, IsReadToItsEnd) {
  for (const char* text : {"",
                           ":80",
                           "127.0.0.1:80@evil.com",
                           "localhost:80.evil.com",
                           "localhost:65536",
                           "localhost:000080",
                           "localhost:-1",
                           "localhost:+80",
                           "localhost:80:80",
                           "::1",
                           "[::1",
                           "[::1]evil.com",
                           "[::1]:80.evil",
                           "[]",
                           "[evil]",
                           "[::1%lo]",
                           "a b",
                           "a/b",
                           "a?b",
                           "a#b",
                           "a\\b",
                           "a@b",
                           "[[::1]]",
                           "a\tb",
                           "caf\xc3\xa9"}) {
    EXPECT_FALSE(host_of_authority(text)) << text;
  }
  EXPECT_FALSE(host_of_authority(std::string_view("a\0b", 3)));
  EXPECT_TRUE(host_of_authority(std::string(255, 'a')));
  EXPECT_FALSE(host_of_authority(std::string(256, 'a')));
}

TEST(RequestTarget, HasThreeForms) {
  const auto read = [](std::string_view target, std::string_view method = "GET") {
    const auto parsed = parse_target(method, target);
    return parsed ? std::string(parsed->authority) + " " + parsed->origin_form : "refused";
  };
  EXPECT_EQ(read("/v1/models?a=b"), " /v1/models?a=b");
  EXPECT_EQ(read("//evil.com/x"), " //evil.com/x") << "a path all the same";
  EXPECT_EQ(read("http://localhost:80/v1/models?a=b"), "localhost:80 /v1/models?a=b");
  EXPECT_EQ(read("hTTps://[::1]"), "[::1] /");
  EXPECT_EQ(read("http://localhost?a"), "localhost /?a");
  EXPECT_EQ(read("http://localhost", "OPTIONS"), "localhost *");
  EXPECT_EQ(read("*", "OPTIONS"), " *");
  for (const char* target : {"", "*", "v1", "localhost:80", "http:/localhost/", "http://", "http:///x",
                             "http://me@localhost/", "http://me:pw@localhost/", "http://localhost:x/",
                             "http://localhost\\@evil.com/", "ws://localhost/", "/a b", "/a#b", "/\x80", "/\t"}) {
    EXPECT_EQ(read(target), "refused") << target;
  }
}

}  // namespace
}  // namespace slip
