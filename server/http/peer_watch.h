// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>

#include "common/clock.h"

namespace slip {

// Detects whether the client of one request has left. On the connection's I/O thread.
//
// A reset means that the client has left. A FIN does not: a client may close its sending side after its request and
// still read the answer (RFC 9112, 9.6). Only a write tells the two apart, since a closed client's system answers with
// a reset. So a client that sent a FIN is probed, at most once per heartbeat. A probe sends bytes that every client
// skips: a "100 Continue" (RFC 9110, 15.2), or a heartbeat of a stream in progress. HTTP/1.0 has no interim answers, so
// there only a stream's heartbeats probe.
//
// The socket must outlive this object. Bytes of a next request are neither read nor evaluated.
class PeerWatch {
 public:
  PeerWatch(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds heartbeat)
      : socket_(socket), heartbeat_(heartbeat) {}

  // True once the client has left. `probe()` is an awaitable<bool> that sends a probe if possible; false: a write
  // failed.
  template <class Probe>
  boost::asio::awaitable<bool> has_left(Probe probe);

  // Waits for a FIN of the client, or for it to leave: true. False after stop(), once the client has left, or when the
  // socket was closed or cancelled. One caller at a time, besides has_left().
  boost::asio::awaitable<bool> wait_for_change();
  bool gone() const { return gone_; }  // as of the last check of the socket
  // Ends the watch. Cancels all waits on the socket, so no other operation may be in progress.
  void stop();

 private:
  void look();

  boost::asio::ip::tcp::socket& socket_;
  const std::chrono::milliseconds heartbeat_;
  std::int64_t probe_at_us_ = 0;  // monotonic time of the earliest next probe
  bool ended_ = false;            // the client sent a FIN
  bool end_told_ = false;         // wait_for_change() has reported it
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
