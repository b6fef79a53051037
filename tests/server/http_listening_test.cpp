// SPDX-License-Identifier: Apache-2.0
#include "server/http_server.h"

#include <sys/resource.h>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

// Connections that only wait kept everybody else out, probes too.
TEST_F(HttpServerTest, TheLongestIdleConnectionMakesRoom) {
  options_.max_connections = 2;
  start();
  RawClient first(server_->port());
  first.send(get("/healthz"));
  EXPECT_EQ(first.read_reply().status, 200);
  std::this_thread::sleep_for(milliseconds(20));  // its answer is read before the server takes it for idle
  RawClient second(server_->port()), third(server_->port());
  third.send(get("/v1/models"));
  EXPECT_EQ(third.read_reply().status, 200);
  EXPECT_FALSE(first.receive());
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  second.send(get("/v1/models"));
  EXPECT_EQ(second.read_reply().status, 200) << "it has waited for less time";
}

TEST_F(HttpServerTest, BusyConnectionsAreCappedButForProbes) {
  options_.max_connections = 2;
  engine_.hold = true;
  start();
  RawClient first(server_->port()), second(server_->port());
  first.send(post(kChat));
  engine_.request(0);  // two workers may turn two chats into requests in either order
  second.send(post(kChat));
  engine_.request(1);
  for (const char* path : {"/healthz", "/readyz", "/metrics", "/healthz/"}) {
    const auto probe = ask(get(path));
    EXPECT_EQ(probe.status, 200) << path;
    EXPECT_EQ(probe.headers.at("connection"), "close") << path;
  }
  for (const std::string& bytes : {get("/v1/models"), post(kChat)}) {
    const auto refused = ask(bytes);
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.headers.at("retry-after"), "2");
    EXPECT_NE(error_of(refused)["message"].get<std::string>().find("all 2 connections"), std::string::npos);
  }
  engine_.answer(engine_.request(0));
  EXPECT_EQ(first.read_reply().status, 200);
  first.close();
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  EXPECT_TRUE(eventually([&] { return metrics_.text().find("slipstream:connections 1\n") != std::string::npos; }));
  EXPECT_EQ(ask(get("/v1/models")).status, 200);
  engine_.answer(engine_.request(1));
  EXPECT_EQ(second.read_reply().status, 200) << "a busy connection was not closed for others";
}

// Silence on many connections: the reserve is taken too, and a probe comes through all the same.
TEST_F(HttpServerTest, ProbesComeThroughSilence) {
  options_.max_connections = 1;
  engine_.hold = true;
  start();
  RawClient busy(server_->port());
  busy.send(post(kChat));
  engine_.request(0);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 2 * ServerOptions::kProbeConnections; ++i) {
    silent.push_back(std::make_unique<RawClient>(server_->port()));
  }
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  EXPECT_TRUE(eventually([&] { return server_->n_connections() <= 1 + ServerOptions::kProbeConnections; }));
  engine_.answer(engine_.request(0));
  EXPECT_EQ(busy.read_reply().status, 200);
}

// Clients whose request was refused, and who then keep the connection open, took every place of the reserve.
TEST_F(HttpServerTest, ProbesComeThroughRefusedConnectionsThatStayOpen) {
  options_.max_connections = 1;
  engine_.hold = true;
  start();
  RawClient busy(server_->port());
  busy.send(post(kChat));
  engine_.request(0);
  std::vector<std::unique_ptr<RawClient>> refused;
  for (int i = 0; i < 2 * ServerOptions::kProbeConnections; ++i) {
    refused.push_back(std::make_unique<RawClient>(server_->port()));
    refused.back()->send(post(kChat).substr(0, post(kChat).size() - 1));  // the server waits for the rest, for a while
    EXPECT_EQ(refused.back()->read_reply().status, 503) << i;
  }
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  engine_.answer(engine_.request(0));
  EXPECT_EQ(busy.read_reply().status, 200);
}

// S8: as many as the default says, and not one more; a thousand idle ones shut out /healthz.
TEST_F(HttpServerTest, AThousandConnectionsAreTheDefaultCap) {
  constexpr int kCap = 1024;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit both_ends{std::min<rlim_t>(before.rlim_max, 2 * kCap + 500), before.rlim_max};
  if (both_ends.rlim_cur < 2 * kCap + 200) GTEST_SKIP() << "too few descriptors for both ends of them";
  ::setrlimit(RLIMIT_NOFILE, &both_ends);
  start();
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kCap; ++i) clients.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(eventually([&] { return server_->n_connections() == kCap; }));
    RawClient beyond(server_->port());
    beyond.send(get("/healthz"));
    EXPECT_EQ(beyond.read_reply().status, 200);
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == kCap; })) << "one of the idle ones made room";
    clients.back()->send(get("/healthz"));
    EXPECT_EQ(clients.back()->read_reply().status, 200);
    EXPECT_EQ(server_->n_connections(), kCap);
  }
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// Out of descriptors, accept fails; the listener waits and goes on. The limit leaves no descriptor at all: a call of
// accept holds one for a moment, so the lowest free one cannot be told while the listener runs.
TEST_F(HttpServerTest, ListeningSurvivesAcceptErrors) {
  start();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  RawClient client(server_->port(), 0, [&] { ::setrlimit(RLIMIT_NOFILE, &none); });
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(server_->n_connections(), 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  client.send(get("/healthz"));
  EXPECT_EQ(client.read_reply().status, 200);
}

// Bug: stop() left all sockets open, so clients waited while the service saved what it had learned.
TEST_F(HttpServerTest, StoppingEndsEveryConnection) {
  engine_.hold = true;
  start();
  const std::uint16_t port = server_->port();
  RawClient idle(port), streaming(port), silent(port);
  idle.send(get("/healthz"));
  EXPECT_EQ(idle.read_reply().status, 200);
  streaming.send(post(kStream));
  ASSERT_TRUE(streaming.read_until(": waiting\n\n"));
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 3; }));
  server_->stop();
  for (RawClient* client : {&idle, &streaming, &silent}) {
    client->read_to_end();
    EXPECT_FALSE(client->timed_out());
  }
  EXPECT_THROW(RawClient late(port), std::runtime_error);
  EXPECT_EQ(server_->port(), port);
}

TEST_F(HttpServerTest, APortInUseIsReported) {
  start();
  ServerOptions same = options_;
  same.port = server_->port();
  Service other(same, metrics_);
  try {
    HttpServer second(other, *gatekeeper_, *quotas_);
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConflict);
    EXPECT_NE(error.message().find(std::to_string(same.port)), std::string::npos);
  }
}

}  // namespace
}  // namespace slip
