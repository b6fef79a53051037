// SPDX-License-Identifier: Apache-2.0
#include "server/http/peer_watch.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <thread>
#include <utility>

#include "tests/common/patience.h"
#include "tests/server/raw_client.h"

namespace slip {
namespace {

using testing::eventually;

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;

// One connection, both of its ends in this thread.
class PeerWatchTest : public ::testing::Test {
 protected:
  PeerWatchTest()
      : acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        client_(acceptor_.local_endpoint().port()),
        socket_(acceptor_.accept()) {}

  std::future<bool> begin(awaitable<bool> question) {
    return asio::co_spawn(context_, std::move(question), asio::use_future);
  }
  bool answer(std::future<bool> begun) {
    context_.restart();
    context_.run_for(kPatience);
    if (begun.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return begun.get();
    ADD_FAILURE() << "no answer within " << kPatience.count() << " s";
    return false;
  }
  bool has_left(PeerWatch& watch) {
    const auto probe = [this]() -> awaitable<bool> {
      ++n_probes_;
      co_return probes_succeed_;
    };
    return answer(begin(watch.has_left(probe)));
  }

  static constexpr std::chrono::seconds kPatience{5 * testing::kPatience};
  static constexpr std::chrono::milliseconds kHour{3'600'000};
  asio::io_context context_;
  tcp::acceptor acceptor_;
  RawClient client_;
  tcp::socket socket_;
  int n_probes_ = 0;
  bool probes_succeed_ = true;
};

TEST_F(PeerWatchTest, AClientThatMaySendIsNotProbed) {
  PeerWatch watch(socket_, kHour);
  EXPECT_FALSE(has_left(watch));
  client_.send("GET /healthz");
  EXPECT_FALSE(has_left(watch));
  EXPECT_EQ(n_probes_, 0);
}

TEST_F(PeerWatchTest, AHalfClosedClientIsProbedOnceAHeartbeat) {
  PeerWatch watch(socket_, kHour);
  client_.end_sending();
  ASSERT_TRUE(eventually([&] { return has_left(watch) || n_probes_ > 0; }));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(has_left(watch));
  EXPECT_EQ(n_probes_, 1);
}

TEST_F(PeerWatchTest, AHalfClosedClientIsProbedAgainAfterAHeartbeat) {
  PeerWatch watch(socket_, std::chrono::milliseconds(20));
  client_.end_sending();
  EXPECT_TRUE(eventually([&] { return has_left(watch) || n_probes_ > 1; }));
  EXPECT_FALSE(watch.gone());
}

TEST_F(PeerWatchTest, AClientHasLeftWhenItsProbeFails) {
  PeerWatch watch(socket_, kHour);
  probes_succeed_ = false;
  client_.end_sending();
  EXPECT_TRUE(eventually([&] { return has_left(watch); }));
  EXPECT_EQ(n_probes_, 1);
}

TEST_F(PeerWatchTest, AResetNeedsNoProbe) {
  PeerWatch watch(socket_, kHour);
  client_.reset();
  EXPECT_TRUE(eventually([&] { return has_left(watch); }));
  EXPECT_TRUE(watch.gone());
  EXPECT_EQ(n_probes_, 0);
}

TEST_F(PeerWatchTest, EachChangeIsToldOnce) {
  PeerWatch watch(socket_, kHour);
  auto end = begin(watch.wait_for_change());
  client_.end_sending();
  EXPECT_TRUE(answer(std::move(end)));
  EXPECT_FALSE(watch.gone());
  auto reset = begin(watch.wait_for_change());
  client_.reset();
  EXPECT_TRUE(answer(std::move(reset)));
  EXPECT_TRUE(watch.gone());
  EXPECT_FALSE(answer(begin(watch.wait_for_change())));
}

TEST_F(PeerWatchTest, StopEndsTheWait) {
  PeerWatch watch(socket_, kHour);
  auto change = begin(watch.wait_for_change());
  context_.poll();
  watch.stop();
  EXPECT_FALSE(answer(std::move(change)));
}

}  // namespace
}  // namespace slip
