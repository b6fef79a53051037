// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>

namespace slip {

// Wakes a connection's coroutine from another thread. It must live as long as any thread may call notify().
class Waker {
 public:
  explicit Waker(const boost::asio::any_io_executor& connection) : timer_(connection) {}
  // Any thread; never throws.
  static void notify(const std::shared_ptr<Waker>& waker) noexcept;
  // On the connection's thread: true when notified, also before this call; false after `timeout`.
  boost::asio::awaitable<bool> wait(std::chrono::milliseconds timeout);

 private:
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

}  // namespace slip
