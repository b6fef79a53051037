// SPDX-License-Identifier: Apache-2.0
// One connection: its bounds and its deadlines. The tests here and in session_*_test.cpp cover RequestReader,
// Responder and AnswerDelivery through their session.
#include "server/session.h"

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

using SessionTest = HttpServerTest;

TEST_F(SessionTest, HeadersAreBounded) {
  start();
  const auto reply = ask(get("/v1/models", "X-Long: " + std::string(20'000, 'x') + "\r\n"));
  EXPECT_EQ(reply.status, 431);
  error_of(reply);
  EXPECT_EQ(ask(get("/v1/models", "X-Long: " + std::string(15'000, 'x') + "\r\n")).status, 200);
}

TEST_F(SessionTest, BodiesAreBounded) {
  options_.max_body_bytes = 10'000;
  start();
  const auto declared = ask(post(std::string(10'001, ' ')));
  EXPECT_EQ(declared.status, 413);
  error_of(declared);
  std::string chunked =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunked += "400\r\n" + std::string(1024, ' ') + "\r\n";
  EXPECT_EQ(ask(chunked + "0\r\n\r\n").status, 413);
  std::string fits = kChat;
  fits.resize(10'000, ' ');
  EXPECT_EQ(ask(post(fits)).status, 200);
}

TEST_F(SessionTest, ExpectContinueIsAnswered) {
  start();
  RawClient client(server_->port());
  const auto request = post(kChat, "/v1/chat/completions", "Expect: 100-Continue\r\n");
  const auto body_at = request.find("\r\n\r\n") + 4;
  client.send(request.substr(0, body_at));
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(request.substr(body_at));
  EXPECT_TRUE(client.read_until("Hello"));
}

TEST_F(SessionTest, RubbishIs400) {
  start();
  EXPECT_EQ(ask("\x16\x03\x01 not http at all\r\n\r\n").status, 400);
  EXPECT_EQ(ask("GET / HTTP/9.9\r\n\r\n").status, 400);
  EXPECT_EQ(ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n").status, 400);
}

// What a proxy in front might read otherwise is refused before anything is made of it, and the connection ends.
TEST_F(SessionTest, SmugglingIsRefused) {
  start();
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  for (const std::string& bytes :
       {head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", head + "X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
        head + "Content-Length: 2\n\r\n{}", std::string("GET /healthz HTTP/1.1\nHost: localhost\n\n"),
        head + "Content-Length: +2\r\n\r\n{}"}) {
    RawClient client(server_->port());
    client.send(bytes + get("/healthz"));
    const auto reply = client.read_reply();
    EXPECT_EQ(reply.status, 400) << bytes;
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_EQ(client.read_to_end().find("HTTP/1.1 200"), std::string::npos) << bytes;
  }
}

TEST_F(SessionTest, BadChunksAreRefused) {
  start();
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks :
       {"-1\r\n", "+2\r\n{}\r\n0\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n", "g\r\n", "\r\n", "10000000000000000\r\n",
        "fffffffffffffffff\r\n", "2\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n"}) {
    const auto reply = ask(head + chunks);
    EXPECT_TRUE(reply.status == 400 || reply.status == 413) << chunks << reply.status;
  }
  const std::string body = R"({"prompt":"x","max_tokens":2})";
  // Lines that end in LF alone got no answer before the body's deadline.
  for (const std::string& chunks : {"1d\n" + body + "\n0\n\n", "1d\r\n" + body + "\n0\n\n",
                                    "1d\r\n" + body + "\r\n0\n\n", "1d\r\n" + body + "\r\n0\r\nX-Trailer: 1\n\n"}) {
    EXPECT_EQ(ask(head + chunks).status, 400) << chunks;
  }
  for (const char* extension : {";ext=1", ";ext=\"quoted\ttext\""}) {
    EXPECT_EQ(ask(head + "1d" + extension + "\r\n" + body + "\r\n0\r\n\r\n").status, 200) << extension;
  }
  // Bug: control characters within quotes were accepted.
  for (const std::string control : {"\n", "\x01", "\x1f", "\x7f", "\\\n"}) {
    EXPECT_EQ(ask(head + "1d;a=\"" + control + "\"\r\n" + body + "\r\n0\r\n\r\n").status, 400);
    EXPECT_EQ(ask(head + "1d\r\n" + body + "\r\n0;a=\"" + control + "\"\r\n\r\n").status, 400);
  }
  // Bytewise: every split of the body arrives the same.
  RawClient slow(server_->port());
  for (const char byte : head + "1d\r\n" + body + "\r\n0\r\nX-Trailer: 1\r\n\r\n") slow.send(std::string(1, byte));
  EXPECT_EQ(slow.read_reply().status, 200);
  slow.send(get("/healthz"));
  EXPECT_EQ(slow.read_reply().status, 200) << "nothing of the body is left over";
}

TEST_F(SessionTest, ATrickledHeadHasOneDeadline) {
  options_.header_timeout = milliseconds(400);
  start();
  RawClient client(server_->port());
  const std::string head = get("/healthz", "X-Slow: " + std::string(1000, 'x') + "\r\n");
  std::size_t n_sent = 0;
  while (n_sent < head.size() && client.pending().empty() && client.send(std::string(1, head[n_sent]))) {
    ++n_sent;
    std::this_thread::sleep_for(milliseconds(10));
    client.receive_now();
  }
  EXPECT_LT(n_sent, head.size() / 2) << "all of it would take ten seconds";
  EXPECT_EQ(client.read_reply().status, 408);
}

// The connection was closed without a word.
TEST_F(SessionTest, SlowBodiesEndTheConnection) {
  options_.body_timeout = milliseconds(200);
  start();
  const std::string whole = post(kChat), head = whole.substr(0, whole.find("\r\n\r\n") + 4);
  const std::string chunked =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n";
  for (const std::string& bytes : {whole.substr(0, whole.size() - 1), head, chunked}) {
    RawClient client(server_->port());
    client.send(bytes);
    const auto reply = client.read_reply();
    EXPECT_EQ(reply.status, 408) << bytes;
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_EQ(error_of(reply)["code"], "request_timeout");
    EXPECT_EQ(error_of(reply)["message"], "the request's body did not arrive within 200 ms, server.body_timeout_ms");
    EXPECT_EQ(client.read_to_end(), "");
  }
  EXPECT_TRUE(engine_.requests().empty());
  EXPECT_NE(metrics_.text().find(R"(slipstream:http_requests_total{route="/v1/chat/completions",status="408"} 3)"),
            std::string::npos)
      << metrics_.text();
}

TEST_F(SessionTest, ABodyThatWasAskedForMayBeTooSlowToo) {
  options_.body_timeout = milliseconds(200);
  start();
  RawClient client(server_->port());
  const auto request = post(kChat, "/v1/chat/completions", "Expect: 100-continue\r\n");
  client.send(request.substr(0, request.find("\r\n\r\n") + 4));
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_NE(client.read_to_end().find("HTTP/1.1 408 Request Timeout\r\n"), std::string::npos) << client.pending();
}

TEST_F(SessionTest, IdleConnectionsEnd) {
  options_.idle_timeout = kUnhurried * milliseconds(200);
  start();
  RawClient silent(server_->port());
  EXPECT_EQ(silent.read_to_end(), "");
  RawClient kept(server_->port());
  kept.send(get("/healthz"));
  EXPECT_EQ(kept.read_reply().status, 200);
  EXPECT_FALSE(kept.receive());
}

// S8: the default bounds, each one above.
TEST_F(SessionTest, TheBoundsAreWhatTheySay) {
  start();
  const std::string frame = get("/healthz", "X-Long: \r\n");
  const auto with_size = [&](std::size_t bytes) {
    return get("/healthz", "X-Long: " + std::string(bytes - frame.size(), 'x') + "\r\n");
  };
  EXPECT_EQ(with_size(16384).size(), 16384U);
  EXPECT_EQ(ask(with_size(16384)).status, 200);
  EXPECT_EQ(ask(with_size(16385)).status, 431);
  std::string body = kChat;
  body.resize(std::size_t{4} << 20, ' ');
  EXPECT_EQ(ask(post(body)).status, 200);
  EXPECT_EQ(ask(post(body + " ")).status, 413);
}

// S8: what the deadlines are; that they end connections is tested with shorter ones.
TEST(ServerOptionsTest, DeadlinesAreWhatTheySay) {
  EXPECT_EQ(ServerOptions{}.header_timeout, std::chrono::seconds(10));
  EXPECT_EQ(ServerOptions{}.idle_timeout, std::chrono::seconds(75));
  EXPECT_EQ(ServerOptions{}.max_connections, 1024);
}

// The connection was closed without a word.
TEST_F(SessionTest, SlowHeadersEndTheConnection) {
  options_.header_timeout = milliseconds(400);
  start();
  for (const bool kept : {false, true}) {
    RawClient client(server_->port());
    if (kept) {
      client.send(get("/healthz"));
      EXPECT_EQ(client.read_reply().status, 200);
    }
    client.send("GET /v1/models HTTP/1.1\r\nHost: loc");
    const auto reply = client.read_reply();
    EXPECT_EQ(reply.status, 408);
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_EQ(error_of(reply)["type"], "invalid_request_error");
    EXPECT_EQ(error_of(reply)["code"], "request_timeout");
    EXPECT_EQ(error_of(reply)["message"],
              "the request's headers did not arrive within 400 ms, server.header_timeout_ms");
    EXPECT_EQ(client.read_to_end(), "");
  }
}

// A 408 on an idle connection may cross the client's next request, which would then take it for its answer.
TEST_F(SessionTest, NegativeAnIdleConnectionGetsNo408) {
  options_.idle_timeout = kUnhurried * milliseconds(200);
  options_.header_timeout = kUnhurried * milliseconds(400);
  start();
  RawClient silent(server_->port());
  EXPECT_EQ(silent.read_to_end(), "");
  for (const char* bytes : {"", "\r\n"}) {  // an empty line is no byte of a request (RFC 9112, 2.2)
    RawClient kept(server_->port());
    kept.send(get("/healthz"));
    EXPECT_EQ(kept.read_reply().status, 200);
    kept.send(bytes);
    EXPECT_EQ(kept.read_to_end(), "");
    EXPECT_FALSE(kept.timed_out());
  }
  RawClient gone(server_->port());
  gone.send("GET /v1/models HTTP/1.1\r\nHost: loc");
  gone.end_sending();
  EXPECT_EQ(gone.read_to_end(), "");
  EXPECT_EQ(metrics_.text().find("status=\"408\""), std::string::npos) << metrics_.text();
}

TEST_F(SessionTest, ConnectionsAreKeptAndPipelined) {
  start();
  RawClient client(server_->port());
  client.send(get("/healthz") + post(kChat) + post(kStream) + get("/v1/models") + get("/nothing") + get("/healthz"));
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_NE(client.read_reply().body.find("Hello"), std::string::npos);
  EXPECT_TRUE(client.read_reply().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(json::parse(client.read_reply().body)["object"], "list");
  EXPECT_EQ(client.read_reply().status, 404);
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(SessionTest, ConnectionCloseIsHonoured) {
  start();
  RawClient client(server_->port());
  client.send(get("/healthz", "Connection: close\r\n"));
  EXPECT_EQ(client.read_reply().headers.at("connection"), "close");
  EXPECT_FALSE(client.receive());
}

// A second request was served when "close" stood after "keep-alive" or in a second Connection header (RFC 9112, 9.3).
TEST_F(SessionTest, CloseInAnyConnectionHeaderIsHonoured) {
  start();
  for (const char* fields : {"Connection: keep-alive, close\r\n", "Connection: keep-alive\r\nConnection: close\r\n",
                             "Connection: close\r\nConnection: keep-alive\r\n", "Connection: x,CLOSE\r\n"}) {
    RawClient client(server_->port());
    client.send(get("/healthz", fields) + get("/healthz"));
    EXPECT_EQ(client.read_reply().headers.at("connection"), "close") << fields;
    EXPECT_EQ(client.read_to_end(), "") << fields;
  }
  RawClient old(server_->port());
  old.send("GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive, close\r\n\r\n" + get("/healthz"));
  EXPECT_EQ(old.read_reply().headers.at("connection"), "close");
  EXPECT_EQ(old.read_to_end(), "");
}

// Targets with a scheme were a 400. Their host counts, not the one in Host (RFC 9112, 3.2.2).
TEST_F(SessionTest, AbsoluteTargetsAreServed) {
  start();
  const auto status = [&](const std::string& target, const std::string& host) {
    return ask("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  EXPECT_EQ(status("http://localhost/v1/models", "localhost"), 200);
  EXPECT_EQ(status("HTTP://127.0.0.1:80/v1/models?x=1", "evil.example"), 200);
  EXPECT_EQ(status("https://[::1]/healthz", "localhost"), 200);
  EXPECT_EQ(status("http://evil.example/healthz", "localhost"), 421);
  EXPECT_EQ(status("http://localhost", "localhost"), 404) << "the path is /";
  EXPECT_EQ(status("http://me@localhost/healthz", "localhost"), 400);
  EXPECT_EQ(status("ftp://localhost/healthz", "localhost"), 400);
  EXPECT_EQ(ask("GET http://localhost/healthz HTTP/1.0\r\n\r\n").status, 200);
  RawClient client(server_->port());
  std::string chat = post(kChat);
  chat.replace(chat.find('/'), 1, "http://localhost/");
  client.send(chat + get("/healthz"));
  EXPECT_NE(client.read_reply().body.find("Hello"), std::string::npos);
  EXPECT_EQ(client.read_reply().status, 200);
}

// What is known as DNS rebinding got past a Host that was read up to the first colon.
TEST_F(SessionTest, HostAndOriginAreReadToTheirEnd) {
  start();
  for (const char* host : {"127.0.0.1:80@evil.com", "localhost:evil.com", "localhost:99999", "[::1]evil", "[::1", "a b",
                           "localhost/", "localhost:80:80"}) {
    EXPECT_EQ(ask("GET /healthz HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n").status, 400) << host;
  }
  for (const char* origin : {"http://localhost:80.evil.com", "http://localhost@evil.com", "http://localhost:80/evil",
                             "http://127.0.0.1:80@evil.com", "http://localhost:80 x"}) {
    EXPECT_EQ(ask(get("/healthz", "Origin: " + std::string(origin) + "\r\n")).status, 403) << origin;
  }
  EXPECT_EQ(ask(get("/healthz", "Origin: http://localhost:3000\r\n")).status, 200);
}

// Of two lines that decide who comes in, the first was taken; a program on the way may take the second.
TEST_F(SessionTest, HeadersThatDecideAccessComeOnce) {
  start();
  for (const std::string field : {"Authorization: Bearer a", "Origin: http://localhost",
                                  "Content-Type: application/json", "X-Slipstream-Topic: sql"}) {
    const auto reply = ask(get("/healthz", field + "\r\n" + field + "\r\n"));
    EXPECT_EQ(reply.status, 400) << field;
    EXPECT_NE(error_of(reply)["message"].get<std::string>().find(field.substr(0, field.find(':'))), std::string::npos);
  }
}

// "X-Slipstream-Learn: on" and then "off" was recorded.
TEST_F(SessionTest, OneOptOutIsEnough) {
  engine_.hold = true;
  start();
  struct Case {
    std::string fields;
    bool learn;
  };
  std::size_t n = 0;
  for (const auto& [fields, learn] : {Case{"X-Slipstream-Learn: on\r\nX-Slipstream-Learn: off\r\n", false},
                                      Case{"X-Slipstream-Learn: off\r\nX-Slipstream-Learn: on\r\n", false},
                                      Case{"X-Slipstream-Learn: on ,\toff\r\n", false},
                                      Case{"X-Slipstream-Learn: on\r\nx-slipstream-learn: on\r\n", true}}) {
    RawClient client(server_->port());
    client.send(post(kChat, "/v1/chat/completions", fields));
    EXPECT_EQ(engine_.request(n++).learn, learn) << fields;
  }
  for (const char* fields :
       {"X-Slipstream-Learn: off\r\nX-Slipstream-Learn: perhaps\r\n", "X-Slipstream-Learn: off,\r\n"}) {
    EXPECT_EQ(error_of(ask(post(kChat, "/v1/chat/completions", fields)))["param"], "X-Slipstream-Learn") << fields;
  }
}

// 70 KB of chunk extension were read and thrown away, and as much before every byte of a body.
TEST_F(SessionTest, WhatAChunkedBodyHasBesidesDataIsBounded) {
  start();
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  const std::string body = R"({"prompt":"x","max_tokens":2})", chunk = "1d\r\n" + body + "\r\n", end = "0\r\n\r\n";
  const auto long_one = [](std::size_t n) { return std::string(n, 'x'); };
  std::string many;
  for (const char byte : body) many += "1;e=" + long_one(1000) + "\r\n" + std::string(1, byte) + "\r\n";
  for (const std::string& bytes :
       {"1d;e=" + long_one(70'000) + "\r\n" + body + "\r\n" + end, chunk + "0;e=" + long_one(70'000) + "\r\n\r\n",
        chunk + "0\r\nX-Trailer: " + long_one(70'000) + "\r\n\r\n", std::string(70'000, '0') + chunk + end, many + end,
        "1d;e=" + long_one(17'000)}) {
    const auto reply = ask(head + bytes);
    EXPECT_EQ(reply.status, 400) << bytes.substr(0, 40);
    EXPECT_EQ(reply.headers.at("connection"), "close");
  }
  EXPECT_EQ(ask(head + "1d;e=" + long_one(8000) + "\r\n" + body + "\r\n0\r\nX-Trailer: 1\r\n\r\n").status, 200);
  std::string bytewise;
  for (const char byte : body + std::string(20'000, ' ')) bytewise += "1\r\n" + std::string(1, byte) + "\r\n";
  EXPECT_EQ(ask(head + bytewise + end).status, 200) << "small chunks are only slow";
}

// Trailers came among the headers, where "off" and topics were read from them (RFC 9110, 6.5.1).
TEST_F(SessionTest, TrailersAreNoHeaders) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Slipstream-Learn: "
      "off\r\n"
      "Transfer-Encoding: chunked\r\n\r\n1d\r\n" +
      std::string(R"({"prompt":"x","max_tokens":2})") +
      "\r\n0\r\nX-Slipstream-Learn: perhaps\r\nX-Slipstream-Topic: sql\r\n\r\n");
  const Request request = engine_.request(0);
  EXPECT_FALSE(request.learn);
  EXPECT_NE(request.route.source, TopicSource::kLabel);
}

TEST_F(SessionTest, Http10StreamsUntilTheEnd) {
  start();
  RawClient client(server_->port());
  client.send(
      "POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(kStream.size()) + "\r\n\r\n" + kStream);
  const auto reply = client.read_reply();
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(SessionTest, SilentStreamsHaveHeartbeats) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kStream));
  EXPECT_TRUE(client.read_until(": waiting\n\n"));
  EXPECT_NE(client.pending().find("text/event-stream"), std::string::npos);
  engine_.answer(engine_.request(0));
  EXPECT_TRUE(client.read_until("[DONE]"));
}

TEST_F(SessionTest, FailuresAreAStatusBeforeTheFirstByteAndAnEventAfter) {
  engine_.failure = Error(ErrorCode::kInternal, "the step failed: secret");
  engine_.pieces = {};
  options_.heartbeat = std::chrono::minutes(10);  // it would be the first byte of a stream that fails late
  start();
  for (const auto& body : {kChat, kStream}) {
    const auto reply = ask(post(body));
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(error_of(reply)["type"], "server_error");
    EXPECT_EQ(reply.body.find("secret"), std::string::npos);
  }
  engine_.hold = true;
  RawClient client(server_->port());
  client.send(post(kStream));
  const Request held = engine_.request(2);
  held.sink->on_tokens({{7}, "some", {}});
  ASSERT_TRUE(client.read_until("some"));
  engine_.finish(held, StopReason::kFailed);
  const std::string all = client.read_to_end();
  EXPECT_NE(all.find("data: {\"error\":"), std::string::npos);
  EXPECT_EQ(all.find("[DONE]"), std::string::npos);
}

}  // namespace
}  // namespace slip
