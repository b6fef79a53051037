// SPDX-License-Identifier: Apache-2.0
#include "server/waker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <string>
#include <utility>

#include "common/log.h"

namespace slip {

namespace asio = boost::asio;

namespace {

// The connection wakes by itself, with its next heartbeat.
void log_lost_wake(const char* why) noexcept {
  try {
    log_error(std::string("cannot wake a connection: ") + why);
  } catch (const std::exception&) {  // no memory for the line either
  }
}

}  // namespace

void Waker::notify(const std::shared_ptr<Waker>& waker) noexcept {
  try {
    asio::post(waker->timer_.get_executor(), [waker] {
      waker->notified_ = true;
      waker->timer_.cancel();
    });
  } catch (const std::exception& error) {
    log_lost_wake(error.what());
  }
}

asio::awaitable<bool> Waker::wait(std::chrono::milliseconds timeout) {
  if (!notified_) {
    timer_.expires_after(timeout);
    co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return std::exchange(notified_, false);
}

}  // namespace slip
