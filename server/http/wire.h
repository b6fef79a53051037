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

// One connection's bytes, plain or TLS: all that a session knows of sockets. On the connection's thread; one read and
// one write may be under way at once.
class Wire {
 public:
  virtual ~Wire() = default;

  // The TLS handshake, nothing for a plain connection; false when there is nobody to talk to.
  virtual boost::asio::awaitable<bool> open() = 0;
  // One deadline for all that follows; when it passes, what is under way fails and the connection is over.
  virtual void expires_after(std::chrono::milliseconds patience) = 0;
  // How many bytes moved; 0: the connection has ended, failed or passed its deadline.
  virtual boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer to) = 0;
  // Likewise, with a deadline that ends this read alone: behind it the connection can still be written to. It replaces
  // the deadline of expires_after(), so set that one anew before a write. Nothing else may wait for the socket.
  virtual boost::asio::awaitable<std::size_t> read_some_until(boost::asio::mutable_buffer to,
                                                              std::chrono::steady_clock::time_point deadline) = 0;
  virtual boost::asio::awaitable<std::size_t> write_some(boost::asio::const_buffer from) = 0;
  // Says goodbye as the protocol wants it. `unread`: the peer may still be sending, and closing over unread bytes would
  // make the kernel send a reset that can overtake our answer, so a little is read first.
  virtual boost::asio::awaitable<void> close(bool unread) = 0;
  // The TCP connection below, to wait on and to cancel.
  virtual boost::asio::ip::tcp::socket& socket() = 0;
};

std::unique_ptr<Wire> make_wire(boost::asio::ip::tcp::socket socket);
std::unique_ptr<Wire> make_tls_wire(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& tls);

}  // namespace slip
