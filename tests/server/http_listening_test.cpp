// SPDX-License-Identifier: Apache-2.0
#include "server/http_server.h"

#include <sys/resource.h>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

TEST_F(HttpServerTest, ConnectionsAreCapped) {
  options_.max_connections = 2;
  start();
  RawClient first(server_->port()), second(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  RawClient third(server_->port());
  third.send(get("/healthz"));
  EXPECT_FALSE(third.receive());
  first.close();
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  EXPECT_EQ(ask(get("/healthz")).status, 200);
}

// S8: as many as the default says, and not one more.
TEST_F(HttpServerTest, AThousandConnectionsAreTheDefaultCap) {
  constexpr int kCap = 1024;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit both_ends{std::min<rlim_t>(before.rlim_max, 2 * kCap + 500), before.rlim_max};
  if (both_ends.rlim_cur < 2 * kCap + 200) GTEST_SKIP() << "too few descriptors for both ends of them";
  ::setrlimit(RLIMIT_NOFILE, &both_ends);
  options_.header_timeout = options_.idle_timeout = std::chrono::seconds(60);
  start();
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kCap; ++i) clients.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(eventually([&] { return server_->n_connections() == kCap; }));
    RawClient beyond(server_->port());
    beyond.send(get("/healthz"));
    EXPECT_FALSE(beyond.receive());
    clients.back()->send(get("/healthz"));
    EXPECT_EQ(clients.back()->read_reply().status, 200);
    EXPECT_EQ(server_->n_connections(), kCap);
  }
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// Out of descriptors, accept fails; the listener waits and goes on.
TEST_F(HttpServerTest, ListeningSurvivesAcceptErrors) {
  start();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  const rlimit tight{static_cast<rlim_t>(lowest_free) + 1, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  RawClient client(server_->port());  // takes the last descriptor, so the server's end gets none
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(server_->n_connections(), 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  client.send(get("/healthz"));
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(HttpServerTest, APortInUseIsSaid) {
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
