// SPDX-License-Identifier: Apache-2.0
// One thread parsed, tokenised and compiled for all: a chat of 10 ms waited 12 s behind thirty large /tokenize.
#include "server/http/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/common/patience.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

constexpr std::chrono::seconds kPatience{10 * testing::kPatience};  // a test that hangs fails instead

// Coroutines on a thread of their own that give the pool work.
class WorkerPoolTest : public ::testing::Test {
 protected:
  template <class Work>
  auto run(WorkerPool::Lane lane, Work work) {
    return run_for(lane, std::move(work), [] { return false; });
  }
  template <class Work, class HasLeft>
  auto run_for(WorkerPool::Lane lane, Work work, HasLeft has_left) {
    auto asked = [has_left = std::move(has_left)]() -> boost::asio::awaitable<bool> { co_return has_left(); };
    return boost::asio::co_spawn(io_.get_executor(), pool_.run(lane, std::move(work), std::move(asked)),
                                 boost::asio::use_future);
  }

  boost::asio::thread_pool io_{1};
  WorkerPool pool_;  // ends before what its work refers to
};

TEST_F(WorkerPoolTest, QuickWorkDoesNotWaitForSlowWork) {
  std::latch held(1);
  auto slow = run(WorkerPool::Lane::kSlow, [&held] {
    held.wait();
    return 1;
  });
  EXPECT_EQ(run(WorkerPool::Lane::kQuick, [] { return 2; }).get(), 2);
  EXPECT_EQ(slow.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  held.count_down();
  EXPECT_EQ(slow.get(), 1);
}

TEST_F(WorkerPoolTest, QuickWorkDoesNotWaitForOneSlowJobAmongIt) {
  for (const auto lane : {WorkerPool::Lane::kQuick, WorkerPool::Lane::kCompiling}) {
    std::latch held(1);
    auto blocked = run(lane, [&held] {
      held.wait();
      return 1;
    });
    auto quick = run(WorkerPool::Lane::kQuick, [] { return 2; });
    EXPECT_EQ(quick.wait_for(kPatience), std::future_status::ready);
    held.count_down();
    EXPECT_EQ(blocked.get(), 1);
  }
}

// Six hundred answers of 1 MB waited in memory, outside every budget, until the last was made.
TEST_F(WorkerPoolTest, AResultDoesNotWaitForTheWorkBehindIt) {
  std::latch both_wait(1), held(1);
  auto first = run(WorkerPool::Lane::kSlow, [&both_wait] {
    both_wait.wait();
    return 1;
  });
  auto second = run(WorkerPool::Lane::kSlow, [&held] {
    held.wait();
    return 2;
  });
  both_wait.count_down();
  ASSERT_EQ(first.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(first.get(), 1);
  held.count_down();
  EXPECT_EQ(second.get(), 2);
}

TEST_F(WorkerPoolTest, WhatAJobThrowsReachesItsCoroutineAndEndsNoThread) {
  for (const auto lane : {WorkerPool::Lane::kQuick, WorkerPool::Lane::kSlow}) {
    for (int i = 0; i < 5; ++i) {
      auto failed = run(lane, []() -> int { throw std::runtime_error("a test's"); });
      EXPECT_THROW(failed.get(), std::runtime_error);
    }
    EXPECT_EQ(run(lane, [] { return 3; }).get(), 3);
  }
}

TEST_F(WorkerPoolTest, WorkWhoseClientHasLeftIsFreedAndNeverBegun) {
  std::latch held(1);
  std::atomic<int> n_run{0};
  auto body = std::make_shared<int>(0);
  auto under_way = run(WorkerPool::Lane::kSlow, [&held] {
    held.wait();
    return 1;
  });
  auto dropped = run_for(
      WorkerPool::Lane::kSlow, [&n_run, body] { return ++n_run; }, [] { return true; });
  const auto while_held = dropped.wait_for(kPatience);
  const long n_holders = body.use_count();
  held.count_down();
  EXPECT_EQ(while_held, std::future_status::ready);
  EXPECT_EQ(n_holders, 1);
  EXPECT_FALSE(dropped.get());
  EXPECT_EQ(under_way.get(), 1);
  EXPECT_EQ(run(WorkerPool::Lane::kSlow, [] { return 3; }).get(), 3);
  EXPECT_EQ(n_run, 0);
}

TEST_F(WorkerPoolTest, WorkThatHasBegunIsFinished) {
  std::latch held(1);
  std::atomic<bool> begun{false};
  std::atomic<int> n_asked{0};
  auto under_way = run_for(
      WorkerPool::Lane::kSlow,
      [&held, &begun] {
        begun = true;
        held.wait();
        return 1;
      },
      [&begun, &n_asked] {
        n_asked += begun ? 1 : 0;
        return begun.load();
      });
  while (n_asked < 2 && under_way.wait_for(milliseconds(1)) != std::future_status::ready) {
  }
  held.count_down();
  EXPECT_EQ(under_way.get(), 1);
}

class SlowLaneTest : public HttpServerTest {
 protected:
  SlowLaneTest() { max_positions_ = 1 << 20; }
  ~SlowLaneTest() override { release(); }

  // Keeps the slow lane's thread in the submission of a large chat.
  void block_slow_lane(RawClient& client) {
    engine_.on_submit = [this](const Request& request) {
      if (request.prompt.size() > 1000) held_.wait();
    };
    client.send(post(R"({"messages":[{"role":"user","content":")" + std::string(40'000, 'x') + R"("}]})"));
    ASSERT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return engine.n_submitting() == 1; }));
  }

  void release() {
    if (!std::exchange(released_, true)) held_.count_down();
  }

  std::latch held_{1};
  bool released_ = false;
};

TEST_F(SlowLaneTest, AChatIsAnsweredWhileLargeWorkWaits) {
  start();
  RawClient large(server_->port()), tokens(server_->port());
  block_slow_lane(large);
  tokens.send(post(R"({"prompt":"one two"})", "/tokenize"));
  EXPECT_EQ(ask(post(kChat)).status, 200);
  EXPECT_EQ(ask(get("/v1/models")).status, 200);
  tokens.receive_now();
  EXPECT_EQ(tokens.pending(), "") << "it has a lane of its own";
  release();
  EXPECT_EQ(tokens.read_reply().status, 200);
  EXPECT_EQ(large.read_reply().status, 200);
}

// Bug: a schema may take as long to compile as ten chats, and two new ones held up every chat.
TEST_F(SlowLaneTest, ChatsAreAnsweredWhileNewSchemasWait) {
  const auto in_a_form = [&](int of, int max_tokens) {
    return post(R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":)" + std::to_string(max_tokens) +
                R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"const":)" +
                std::to_string(of) + "}}}}");
  };
  start();
  EXPECT_EQ(ask(in_a_form(0, 5)).status, 200) << "now it is compiled";
  engine_.on_submit = [this](const Request& request) {
    if (request.max_tokens == 7) held_.wait();
  };
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 1; i <= 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(in_a_form(i, 7));
  }
  ASSERT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return engine.n_submitting() >= 1; }));
  EXPECT_EQ(ask(post(kChat)).status, 200);
  EXPECT_EQ(ask(in_a_form(0, 5)).status, 200) << "a kept schema is quick";
  EXPECT_EQ(engine_.n_submitting(), 1);
  release();
  for (const auto& client : clients) EXPECT_EQ(client->read_reply().status, 200);
}

// Forty clients sent 4 MB to /tokenize and left. The next one waited 19 s for work that nobody wanted, and the bodies
// stayed in memory.
TEST_F(SlowLaneTest, WorkOfClientsThatLeftIsDroppedWhileTheLaneIsBusy) {
  constexpr int kClients = 8;
  constexpr std::size_t kBytes = 200'000;
  start();
  RawClient large(server_->port());
  block_slow_lane(large);
  const std::string text(kBytes, 'x');
  std::vector<std::unique_ptr<RawClient>> leaving;
  for (int i = 0; i < kClients; ++i) {
    leaving.push_back(std::make_unique<RawClient>(server_->port()));
    leaving.back()->send(i % 2 == 0 ? post(R"({"prompt":")" + text + R"("})", "/tokenize")
                                    : post(R"({"messages":[{"role":"user","content":")" + text + R"("}]})"));
  }
  ASSERT_TRUE(eventually([&] { return service_->memory().used() >= kClients * kBytes; }));
  for (int i = 0; i < kClients; ++i) i < kClients / 2 ? leaving[i]->reset() : leaving[i]->close();
  EXPECT_TRUE(eventually([&] { return service_->memory().used() < kBytes; })) << service_->memory().used();
  for (const std::string route : {"/tokenize", "/v1/chat/completions"}) {
    const std::string count = "slipstream:http_requests_total{route=\"" + route + "\",status=\"499\"} 4\n";
    EXPECT_TRUE(eventually([&] { return metrics_.text().find(count) != std::string::npos; })) << metrics_.text();
  }
  EXPECT_EQ(engine_.n_submitting(), 1);
  release();
  EXPECT_EQ(ask(post(R"({"prompt":"one two"})", "/tokenize")).status, 200);
  EXPECT_EQ(large.read_reply().status, 200);
}

TEST_F(SlowLaneTest, AHalfClosedClientStaysInTheQueue) {
  start();
  RawClient large(server_->port()), tokens(server_->port());
  block_slow_lane(large);
  tokens.send(post(R"({"prompt":"one two"})", "/tokenize"));
  tokens.end_sending();
  ASSERT_TRUE(tokens.read_until("HTTP/1.1 100 Continue\r\n\r\n")) << "it is probed";
  release();
  EXPECT_NE(tokens.read_to_end().find("HTTP/1.1 200 "), std::string::npos) << tokens.pending();
}

}  // namespace
}  // namespace slip
