// SPDX-License-Identifier: Apache-2.0
#include "server/http/wire.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <type_traits>
#include <utility>

namespace slip {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::awaitable;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kCloseTime{2000};
constexpr std::chrono::milliseconds kCancelTime{5000};  // more than a busy machine runs our timer late
constexpr std::size_t kLingerBytes = std::size_t{8} << 20;

using TlsStream = asio::ssl::stream<beast::tcp_stream>;

template <class Stream>
class StreamWire final : public Wire {
 public:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  template <class... Arguments>
  explicit StreamWire(Arguments&&... arguments) : stream_(std::forward<Arguments>(arguments)...) {}

  awaitable<bool> open() override {
    if constexpr (kTls) {
      auto [fault] = co_await stream_.async_handshake(asio::ssl::stream_base::server, kTuple);
      co_return !fault;
    }
    co_return true;
  }

  void expires_after(std::chrono::milliseconds patience) override { tcp().expires_after(patience); }

  awaitable<std::size_t> read_some(asio::mutable_buffer to) override {
    auto [fault, n] = co_await stream_.async_read_some(to, kTuple);
    co_return fault ? 0 : n;
  }

  awaitable<std::size_t> read_some_until(asio::mutable_buffer to,
                                         std::chrono::steady_clock::time_point deadline) override {
    // Beast's stream deadline closes the socket. It is set later than ours, as a fallback: our single cancellation may
    // fall between two reads of a TLS record.
    tcp().expires_at(deadline + kCancelTime);
    asio::steady_timer timer(socket().get_executor(), deadline);
    const auto reading = std::make_shared<bool>(true);  // the timer's handler may run after this coroutine ended
    timer.async_wait([this, read = std::weak_ptr<bool>(reading)](const beast::error_code& fault) {
      beast::error_code ignored;
      if (!fault && !read.expired()) socket().cancel(ignored);
    });
    auto [fault, n] = co_await stream_.async_read_some(to, kTuple);
    co_return fault ? 0 : n;
  }

  awaitable<std::size_t> write_some(asio::const_buffer from) override {
    auto [fault, n] = co_await stream_.async_write_some(from, kTuple);
    co_return fault ? 0 : n;
  }

  awaitable<void> close(bool unread) override {
    beast::error_code ignored;
    expires_after(kCloseTime);
    if constexpr (kTls) co_await stream_.async_shutdown(kTuple);
    socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    if (unread) co_await discard();
    socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    socket().close(ignored);
  }

  asio::ip::tcp::socket& socket() override { return tcp().socket(); }

 private:
  beast::tcp_stream& tcp() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  // Reads below TLS, whose session has ended.
  awaitable<void> discard() {
    std::array<char, 16384> bytes;
    for (std::size_t total = 0; total < kLingerBytes;) {
      auto [fault, n] = co_await tcp().async_read_some(asio::buffer(bytes), kTuple);
      if (fault) co_return;
      total += n;
    }
  }

  Stream stream_;
};

}  // namespace

std::unique_ptr<Wire> make_wire(asio::ip::tcp::socket socket) {
  return std::make_unique<StreamWire<beast::tcp_stream>>(std::move(socket));
}

std::unique_ptr<Wire> make_tls_wire(asio::ip::tcp::socket socket, asio::ssl::context& tls) {
  return std::make_unique<StreamWire<TlsStream>>(beast::tcp_stream(std::move(socket)), tls);
}

}  // namespace slip
