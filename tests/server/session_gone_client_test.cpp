// SPDX-License-Identifier: Apache-2.0
// Clients that leave, stop reading or read slowly: what becomes of their requests.
#include "server/session.h"

#include <algorithm>
#include <set>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

using GoneClientTest = HttpServerTest;

TEST_F(GoneClientTest, GoneClientCancelsItsRequest) {
  engine_.hold = true;
  start();
  std::size_t expected = 0;
  for (const auto& body : {kChat, kStream}) {
    for (const bool abrupt : {false, true}) {
      RawClient client(server_->port());
      client.send(post(body));
      const RequestId id = engine_.request(expected++).id;
      abrupt ? client.reset() : client.close();
      EXPECT_TRUE(engine_.wait_for([&](const FakeEngine& engine) {
        const auto& ids = engine.cancelled();
        return std::find(ids.begin(), ids.end(), id) != ids.end();
      })) << body
          << abrupt;
    }
  }
  EXPECT_TRUE(eventually([&] { return service_->n_active == 0; }));
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  EXPECT_NE(metrics_.text().find("slipstream:clients_gone_total 4"), std::string::npos) << metrics_.text();
}

// A client that left before the first byte of a stream was logged and counted as a 503 of a server that shuts down.
TEST_F(GoneClientTest, AClientThatLeftIsNoErrorOfOurs) {
  engine_.hold = true;
  options_.heartbeat = std::chrono::seconds(60);  // nothing is sent before the client leaves
  start();
  for (std::size_t i = 0; i < 2; ++i) {
    RawClient client(server_->port());
    client.send(post(i == 0 ? kChat : kStream));
    engine_.request(i);
    client.reset();
    ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  }
  const std::string text = metrics_.text();
  EXPECT_NE(text.find(R"(slipstream:http_requests_total{route="/v1/chat/completions",status="499"} 2)"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("status=\"503\""), std::string::npos);
}

// shutdown(SHUT_WR) after the request was taken for a client that is gone.
TEST_F(GoneClientTest, HalfClosedClientsGetTheirAnswer) {
  engine_.hold = true;
  options_.heartbeat = std::chrono::seconds(60);  // nothing else is sent before the answer
  start();
  std::size_t n = 0;
  for (const auto& body : {kChat, kStream}) {
    for (const bool http_1_0 : {false, true}) {
      std::string request = post(body);
      if (http_1_0) request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
      RawClient client(server_->port());
      client.send(request);
      client.end_sending();
      const Request held = engine_.request(n++);
      EXPECT_TRUE(http_1_0 || client.read_until("HTTP/1.1 100 Continue\r\n\r\n")) << "asks whether anybody reads";
      std::this_thread::sleep_for(milliseconds(30));  // for HTTP/1.0: long enough to be noticed
      engine_.answer(held);
      const std::string all = client.read_to_end();
      EXPECT_NE(all.find("Hel"), std::string::npos) << all;
      EXPECT_EQ(all.find("[DONE]") != std::string::npos, body == kStream) << all;
      EXPECT_EQ(all.find("100 Continue") == std::string::npos, http_1_0) << "HTTP/1.0 has no interim answers: " << all;
    }
  }
  EXPECT_TRUE(engine_.cancelled().empty());
}

TEST_F(GoneClientTest, AllChoicesOfAGoneClientAreCancelled) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(R"({"messages":[{"role":"user","content":"hi"}],"n":3})"));
  engine_.request(2);
  client.close();
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) {
    std::set<std::uint64_t> ids;
    for (const RequestId id : engine.cancelled()) ids.insert(id.value);
    return ids.size() == 3;
  }));
}

TEST_F(GoneClientTest, AChoiceThatFailsTakesTheOthersWithIt) {
  engine_.hold = true;
  engine_.failure = Error(ErrorCode::kInternal, "the step failed");
  options_.heartbeat = std::chrono::minutes(10);  // nothing is sent before the failure
  start();
  for (const char* stream : {"false", "true"}) {
    const std::size_t before = engine_.requests().size();
    RawClient client(server_->port());
    client.send(post(R"({"messages":[{"role":"user","content":"hi"}],"n":2,"stream":)" + std::string(stream) + "}"));
    const Request second = engine_.request(before + 1), first = engine_.request(before);
    engine_.finish(second, StopReason::kFailed);
    EXPECT_EQ(client.read_reply().status, 500);
    EXPECT_TRUE(engine_.wait_for([&](const FakeEngine& engine) {
      const auto& ids = engine.cancelled();
      return std::find(ids.begin(), ids.end(), first.id) != ids.end();
    }));
  }
}

TEST_F(GoneClientTest, GoneClientIsNoticedBehindPipelinedBytes) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kChat));
  engine_.request(0);
  client.send(get("/healthz"));  // unread bytes hide an end of file from a read
  std::this_thread::sleep_for(milliseconds(50));
  client.close();
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
}

// A client that reads nothing: buffers fill, no byte moves for write_timeout, the request is cancelled.
TEST_F(GoneClientTest, StuckClientLosesItsRequest) {
  engine_.hold = true;
  options_.write_timeout = milliseconds(500);
  start();
  RawClient client(server_->port(), /*receive_buffer=*/4096);
  client.send(post(kStream));
  const Request held = engine_.request(0);
  for (int i = 0; i < 300; ++i) {
    held.sink->on_tokens({{7}, std::string(10'000, 'x'), {}});
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

// A client that reads slowly gets all, though it takes twice the time-out: only no progress counts.
TEST_F(GoneClientTest, SlowClientGetsEverything) {
  options_.write_timeout = kUnhurried * milliseconds(500);
  engine_.pieces = std::vector<std::string>(100, std::string(10'000, 'x'));
  start();
  RawClient client(server_->port(), /*receive_buffer=*/4096);
  client.send(post(kStream));
  for (int i = 0; i < kUnhurried * 10; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    client.receive();
  }
  const auto reply = client.read_reply();
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  EXPECT_GE(reply.body.size(), 1'000'000U);
}

}  // namespace
}  // namespace slip
