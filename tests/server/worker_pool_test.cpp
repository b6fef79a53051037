// SPDX-License-Identifier: Apache-2.0
// One thread parsed, tokenised and compiled for all: a chat of 10 ms waited 12 s behind thirty large /tokenize.
#include "server/worker_pool.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <latch>
#include <stdexcept>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

constexpr std::chrono::seconds kPatience{10};  // a test that hangs fails instead

// Coroutines on a thread of their own that give the pool work.
class WorkerPoolTest : public ::testing::Test {
 protected:
  template <class Work>
  auto run(WorkerPool::Lane lane, Work work) {
    return boost::asio::co_spawn(io_.get_executor(), pool_.run(lane, std::move(work)), boost::asio::use_future);
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
  EXPECT_EQ(tokens.pending(), "");
  release();
  EXPECT_EQ(tokens.read_reply().status, 200);
  EXPECT_EQ(large.read_reply().status, 200);
}

}  // namespace
}  // namespace slip
