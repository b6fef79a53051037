// SPDX-License-Identifier: Apache-2.0
#include "server/http/waker.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "common/log.h"

namespace slip {

namespace asio = boost::asio;

void Waker::notify(const std::shared_ptr<Waker>& waker) noexcept {
  try {
    asio::post(waker->timer_.get_executor(), [waker] {
      waker->notified_ = true;
      waker->timer_.cancel();
    });
  } catch (const std::exception& error) {  // the connection wakes by itself at its next heartbeat
    log_parts(LogLevel::kError, {"cannot wake a connection: ", error.what()});
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
