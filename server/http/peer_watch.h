// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>

#include "common/clock.h"

namespace slip {

// Decides whether the client of one request still waits for its answer. On the connection's I/O thread.
//
// A reset means that the client has left. The end of its sending does not: a client may end its sending behind its
// request and read the answer (RFC 9112, 9.6). Only bytes tell such a client from one that has closed: the latter's
// system answers them with a reset. So a client that has ended its sending is probed, at most once a heartbeat. A probe
// sends what every client skips: a "100 Continue" (RFC 9110, 15.2), or a heartbeat of a stream that has begun. HTTP/1.0
// has no interim answers, so nothing but a stream's heartbeats probes there.
//
// The socket must outlive this object. Bytes of a next request say nothing and are not read.
class PeerWatch {
 public:
  PeerWatch(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds heartbeat)
      : socket_(socket), heartbeat_(heartbeat) {}

  // True once the client has left. `probe()` is an awaitable<bool> that sends a probe, if it may; false: a write
  // failed.
  template <class Probe>
  boost::asio::awaitable<bool> has_left(Probe probe);

  // Waits for the client to end its sending, or to leave; true for each of the two. False after stop(), once the client
  // has left, or when the socket was closed or cancelled. One caller at a time, beside has_left().
  boost::asio::awaitable<bool> wait_for_change();
  bool gone() const { return gone_; }  // as of the last look at the socket
  // The request needs no watching any more. Cancels what waits for the socket: nothing else may be under way there.
  void stop();

 private:
  void look();

  boost::asio::ip::tcp::socket& socket_;
  const std::chrono::milliseconds heartbeat_;
  std::int64_t probe_at_us_ = 0;  // monotonic: not before
  bool ended_ = false;            // the client sends nothing more
  bool end_told_ = false;         // by wait_for_change()
  bool gone_ = false;
  bool stopped_ = false;
};

template <class Probe>
boost::asio::awaitable<bool> PeerWatch::has_left(Probe probe) {
  look();
  if (gone_) co_return true;
  const std::int64_t now_us = monotonic_us();
  if (!ended_ || now_us < probe_at_us_) co_return false;
  probe_at_us_ = now_us + std::chrono::microseconds(heartbeat_).count();
  const bool sent = co_await probe();
  co_return !sent;
}

}  // namespace slip
