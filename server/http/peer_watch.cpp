// SPDX-License-Identifier: Apache-2.0
#include "server/http/peer_watch.h"

#include <poll.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace slip {
namespace {

namespace asio = boost::asio;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kPeerCheck{1000};

}  // namespace

void PeerWatch::look() {
  pollfd state{socket_.native_handle(), POLLRDHUP, 0};
  if (::poll(&state, 1, 0) <= 0) return;
  if ((state.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
    gone_ = true;
  } else if ((state.revents & POLLRDHUP) != 0) {
    ended_ = true;
  }
}

asio::awaitable<bool> PeerWatch::wait_for_change() {
  using Socket = asio::ip::tcp::socket;
  asio::steady_timer pause(socket_.get_executor());
  while (!stopped_ && !gone_ && socket_.is_open()) {
    auto [fault] = co_await socket_.async_wait(end_told_ ? Socket::wait_error : Socket::wait_read, kTuple);
    if (stopped_ || fault == asio::error::operation_aborted) co_return false;
    if (fault) {
      gone_ = true;
    } else {
      look();
    }
    if (gone_) co_return true;
    if (ended_ && !std::exchange(end_told_, true)) co_return true;
    // Unread bytes of a next request keep the socket readable, so poll it at intervals.
    pause.expires_after(kPeerCheck);
    co_await pause.async_wait(kTuple);
  }
  co_return false;
}

void PeerWatch::stop() {
  stopped_ = true;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

}  // namespace slip
