// SPDX-License-Identifier: Apache-2.0
// One thread parsed, tokenised and compiled for all: a chat of 10 ms waited 12 s behind thirty large /tokenize.
#include "server/worker_pool.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>
#include <latch>
#include <stdexcept>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

constexpr std::chrono::seconds kPatience{10};  // a test that hangs fails instead

TEST(WorkerPool, QuickWorkDoesNotWaitForSlowWork) {
  WorkerPool pool;
  std::latch held(1);
  std::promise<void> slow_began, quick_ended;
  boost::asio::post(pool.executor(WorkerPool::Lane::kSlow), [&] {
    slow_began.set_value();
    held.wait();
  });
  ASSERT_EQ(slow_began.get_future().wait_for(kPatience), std::future_status::ready);
  boost::asio::post(pool.executor(WorkerPool::Lane::kQuick), [&] { quick_ended.set_value(); });
  EXPECT_EQ(quick_ended.get_future().wait_for(kPatience), std::future_status::ready);
  held.count_down();
}

TEST(WorkerPool, AJobThatThrowsEndsNoThread) {
  WorkerPool pool;
  for (const auto lane : {WorkerPool::Lane::kQuick, WorkerPool::Lane::kSlow}) {
    for (int i = 0; i < 5; ++i) boost::asio::post(pool.executor(lane), [] { throw std::runtime_error("a test's"); });
    std::promise<void> ran;
    boost::asio::post(pool.executor(lane), [&] { ran.set_value(); });
    EXPECT_EQ(ran.get_future().wait_for(kPatience), std::future_status::ready);
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
