// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <memory>

namespace boost::asio::ssl {
class context;
}

namespace slip {

// One connection's byte stream, plain or TLS. Sessions use sockets only through it. On the connection's thread; one
// read and one write may be in progress at once.
class Wire {
 public:
  virtual ~Wire() = default;

  // The TLS handshake; nothing for a plain connection. False if the client has left.
  virtual boost::asio::awaitable<bool> open() = 0;
  // Sets a deadline for all later operations. When it passes, the operation fails and the connection is closed.
  virtual void expires_after(std::chrono::milliseconds patience) = 0;
  // The number of bytes read; 0: the connection ended, failed or passed its deadline.
  virtual boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer to) = 0;
  // As above, but the deadline ends only this read: the connection can still be written to. It replaces the deadline of
  // expires_after(), so set that again before a write. No other operation may wait on the socket.
  virtual boost::asio::awaitable<std::size_t> read_some_until(boost::asio::mutable_buffer to,
                                                              std::chrono::steady_clock::time_point deadline) = 0;
  virtual boost::asio::awaitable<std::size_t> write_some(boost::asio::const_buffer from) = 0;
  // Closes the connection as the protocol requires. `unread`: the peer may still be sending. Closing with unread bytes
  // makes the kernel send a reset that can overtake our answer, so some bytes are read first.
  virtual boost::asio::awaitable<void> close(bool unread) = 0;
  // The TCP socket below, for waiting and cancelling.
  virtual boost::asio::ip::tcp::socket& socket() = 0;
};

std::unique_ptr<Wire> make_wire(boost::asio::ip::tcp::socket socket);
std::unique_ptr<Wire> make_tls_wire(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& tls);

}  // namespace slip
