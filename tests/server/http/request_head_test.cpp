// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_head.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

std::string fault(const std::string& fields, const std::string& line = "POST /v1/completions HTTP/1.1") {
  return fault_of_head(line + "\r\n" + fields + "\r\n").value_or("");
}

const std::string kHost = "Host: localhost\r\n";

TEST(RequestHead, OrdinaryOnesPass) {
  EXPECT_EQ(fault(kHost), "");
  EXPECT_EQ(fault(kHost + "Content-Length: 12\r\nX-Empty:\r\nX-Tab: a\tb\r\n"), "");
  EXPECT_EQ(fault("host:localhost\r\ntransfer-encoding: Chunked \r\n"), "");
  EXPECT_EQ(fault(kHost + "X-Latin: caf\xe9\r\n"), "");
  EXPECT_EQ(fault("", "GET / HTTP/1.0"), "");
  EXPECT_EQ(fault(kHost, "OPTIONS * HTTP/1.1"), "");
}

TEST(RequestHead, TwoWaysToFindTheBodysEndAreRefused) {
  for (const char* fields :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5\r\ncontent-length: 6\r\n",
        "Content-Length: 5, 5\r\n", "Content-Length: +5\r\n", "Content-Length: -5\r\n", "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n", "Content-Length:\r\n", "Content-Length: 12345678901234567\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding:\r\n",
        "Transfer-Encoding: \x0b chunked\r\n"}) {
    EXPECT_NE(fault(kHost + fields), "") << fields;
  }
  EXPECT_NE(fault("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0"), "");
}

TEST(RequestHead, OddLinesAreRefused) {
  for (const char* fields : {" folded: x\r\n", "A: b\r\n folded\r\n", "A: b\r\n\tfolded\r\n", "A : b\r\n", "A\t: b\r\n",
                             ": b\r\n", "A\r\n", "A: b\nB: c\r\n", "A: b\rB: c\r\n", "A: b\r\r\n", "A: \x01\r\n",
                             "A: \x7f\r\n", "\xc3\xa4: b\r\n", "A(x): b\r\n"}) {
    EXPECT_NE(fault(kHost + fields), "") << fields;
  }
  EXPECT_NE(fault(kHost + std::string("A: b\0c\r\n", 8)), "");
}

TEST(RequestHead, OddRequestLinesAreRefused) {
  for (const char* line :
       {"", "GET", "GET /", "GET / HTTP/2.0", "GET / HTTP/1.2", "GET / http/1.1", "GET  / HTTP/1.1", "GET / HTTP/1.1 ",
        " GET / HTTP/1.1", "G(T / HTTP/1.1", "GET ftp://x/ HTTP/1.1", "GET http:///a HTTP/1.1",
        "GET http://me@x/ HTTP/1.1", "CONNECT x:80 HTTP/1.1", "GET /a#b HTTP/1.1", "GET * HTTP/1.1",
        "GET /a b HTTP/1.1", "GET /\x80 HTTP/1.1", "GET /\t HTTP/1.1"}) {
    EXPECT_NE(fault(kHost, line), "") << line;
  }
}

TEST(RequestHead, ThereIsOneHost) {
  EXPECT_EQ(fault("Host:\r\n"), "") << "valid, though nobody is called so";
  EXPECT_NE(fault("Host: a@b\r\n"), "");
  EXPECT_NE(fault("Host: a:b\r\n"), "");
  EXPECT_NE(fault(""), "");
  EXPECT_NE(fault(kHost + kHost), "");
  EXPECT_NE(fault(kHost + "HOST: other\r\n"), "");
}

TEST(RequestHead, WhatDecidesAccessComesOnce) {
  for (const std::string name : {"Authorization", "ORIGIN", "content-type", "Content-Encoding", "X-Slipstream-Topic"}) {
    EXPECT_EQ(fault(kHost + name + ": a\r\n"), "");
    EXPECT_NE(fault(kHost + name + ": a\r\nX: y\r\n" + name + ": a\r\n"), "") << name;
  }
  EXPECT_EQ(fault(kHost + "X-Slipstream-Learn: on\r\nX-Slipstream-Learn: off\r\n"), "") << "a list";
}

TEST(RequestHead, WhatCannotBecomeOneIsKnownEarly) {
  EXPECT_FALSE(fault_of_partial_head("GE", 0));
  EXPECT_FALSE(fault_of_partial_head("GET / HTTP/1.1\r", 0));
  EXPECT_FALSE(fault_of_partial_head("GET / HTTP/1.1\r\nHo", 15));
  EXPECT_TRUE(fault_of_partial_head("\x16\x03\x01", 0)) << "a TLS handshake";
  EXPECT_TRUE(fault_of_partial_head("GET / HTTP/1.1\n", 3));
  EXPECT_TRUE(fault_of_partial_head("GET / HTTP/1.1\rH", 15)) << "the CR was seen before";
  EXPECT_TRUE(fault_of_partial_head(std::string_view("GET /\0", 6), 5));
}

}  // namespace
}  // namespace slip
