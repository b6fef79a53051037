// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace slip {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using std::chrono::milliseconds;

// A client whose next bytes are always ready: every read brings `bytes_a_read` of them, a millisecond later. After
// `text` it sends `rest` for ever, so a reader that looks at no clock reads up to its size limit.
class ReadyWire : public Wire {
 public:
  ReadyWire(asio::io_context& context, std::string text, std::size_t bytes_a_read, char rest)
      : socket_(context), text_(std::move(text)), bytes_a_read_(bytes_a_read), rest_(rest) {}

  awaitable<bool> open() override { co_return true; }
  void expires_after(milliseconds) override {}
  awaitable<std::size_t> read_some(asio::mutable_buffer to) override {
    std::this_thread::sleep_for(milliseconds(1));
    const std::size_t n = std::min(bytes_a_read_, to.size());
    text_.resize(std::max(text_.size(), n), rest_);
    std::memcpy(to.data(), text_.data(), n);
    text_.erase(0, n);
    ++n_reads_;
    co_return n;
  }
  awaitable<std::size_t> read_some_until(asio::mutable_buffer to, std::chrono::steady_clock::time_point) override {
    return read_some(to);
  }
  awaitable<std::size_t> write_some(asio::const_buffer from) override { co_return from.size(); }
  awaitable<void> close(bool) override { co_return; }
  asio::ip::tcp::socket& socket() override { return socket_; }

  int n_reads() const { return n_reads_; }

 private:
  asio::ip::tcp::socket socket_;
  std::string text_;
  const std::size_t bytes_a_read_;
  const char rest_;
  int n_reads_ = 0;
};

class RequestReaderTest : public ::testing::Test {
 protected:
  RequestReader::Result run(awaitable<RequestReader::Result> reading) {
    auto result = asio::co_spawn(context_, std::move(reading), asio::use_future);
    context_.restart();
    context_.run();
    return result.get();
  }

  asio::io_context context_;
  ServerOptions options_;
  MemoryBudget budget_{64U << 20, 0};
};

constexpr std::string_view kPost = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n";

TEST_F(RequestReaderTest, ReadsAHeadAndItsBody) {
  ReadyWire wire(context_, std::string(kPost), 8192, 'x');
  RequestReader reader(wire, options_);
  RequestParser parser;
  EXPECT_EQ(run(reader.read_head(parser)).outcome, RequestReader::Outcome::kRead);
  MemoryBudget::Reservation room(budget_);
  EXPECT_EQ(run(reader.read_body(parser, room)).outcome, RequestReader::Outcome::kRead);
  EXPECT_EQ(parser.get().body(), std::string(60000, 'x'));
}

// Bug: the parser joined the lines of a folded trailer, and the request was answered.
TEST_F(RequestReaderTest, AFoldedTrailerIsRefused) {
  const std::string body =
      "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0";
  for (const std::size_t bytes_a_read : {7, 8192}) {
    const auto read = [&](const std::string& end) {
      ReadyWire wire(context_, body + end, bytes_a_read, ' ');  // blanks behind the end are the next request's
      RequestReader reader(wire, options_);
      RequestParser parser;
      EXPECT_EQ(run(reader.read_head(parser)).outcome, RequestReader::Outcome::kRead);
      MemoryBudget::Reservation room(budget_);
      return run(reader.read_body(parser, room));
    };
    for (const char* end : {"\r\n\r\n", ";a=b\r\n\r\n", "\r\nA: b \t c\r\nB:\r\n\r\n"}) {
      EXPECT_EQ(read(end).outcome, RequestReader::Outcome::kRead) << end;
    }
    for (const char* end : {"\r\nA: b\r\n c\r\n\r\n", "\r\nA: b\r\n\tc\r\n\r\n", ";a=b\r\nA:\r\n b\r\n\r\n",
                            "\r\nA: b\r\nB: c\r\n \r\n\r\n", "\r\n A: b\r\n\r\n"}) {
      const auto result = read(end);
      EXPECT_EQ(result.outcome, RequestReader::Outcome::kRefused) << end;
      EXPECT_EQ(result.refusal.status, 400) << end;
    }
  }
}

TEST_F(RequestReaderTest, AHeadThatKeepsComingMissesItsDeadline) {
  options_.header_timeout = milliseconds(20);
  ReadyWire wire(context_, "GET / HTTP/1.1\r\nname: ", 1, 'x');
  RequestReader reader(wire, options_);
  RequestParser parser;
  const auto result = run(reader.read_head(parser));
  EXPECT_EQ(result.outcome, RequestReader::Outcome::kRefused);
  EXPECT_EQ(result.refusal.status, 408);
  EXPECT_LE(wire.n_reads(), 30);
}

TEST_F(RequestReaderTest, ABodyThatKeepsComingMissesItsDeadline) {
  options_.body_timeout = milliseconds(20);
  ReadyWire wire(context_, std::string(kPost), kPost.size(), 'x');  // 60,000 bytes take some 800 reads
  RequestReader reader(wire, options_);
  RequestParser parser;
  ASSERT_EQ(run(reader.read_head(parser)).outcome, RequestReader::Outcome::kRead);
  MemoryBudget::Reservation room(budget_);
  const auto result = run(reader.read_body(parser, room));
  EXPECT_EQ(result.outcome, RequestReader::Outcome::kRefused);
  EXPECT_EQ(result.refusal.status, 408);
  EXPECT_LE(wire.n_reads(), 30);
}

}  // namespace
}  // namespace slip
