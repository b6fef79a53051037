// SPDX-License-Identifier: Apache-2.0
#include "bench/common/client.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <string>
#include <thread>
#include <utility>

namespace slip::bench {
namespace {

namespace http = boost::beast::http;
using tcp = boost::asio::ip::tcp;

// Answers one request with a stream of the given events.
class OneStream {
 public:
  explicit OneStream(std::string events)
      : events_(std::move(events)),
        acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        serving_([this] { serve(); }) {}
  Endpoint endpoint() const { return {"127.0.0.1", std::to_string(acceptor_.local_endpoint().port())}; }

 private:
  void serve() {
    tcp::socket socket = acceptor_.accept();
    boost::beast::flat_buffer buffer;
    http::request<http::string_body> request;
    http::read(socket, buffer, request);
    boost::asio::write(socket,
                       boost::asio::buffer("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " +
                                           std::to_string(events_.size()) + "\r\n\r\n" + events_));
  }

  std::string events_;
  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  std::jthread serving_;
};

constexpr const char* kText = R"(data: {"choices":[{"delta":{"content":"Hi"}}]}

data: {"choices":[{"delta":{"content":" there"},"finish_reason":"stop"}]}

)";

TEST(StreamChat, AWholeStreamHasItsTextAndItsTokens) {
  OneStream service(std::string(kText) +
                    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n");
  const ChatReply reply = stream_chat(service.endpoint(), {.prompt = "hello"});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.text, "Hi there");
  EXPECT_EQ(reply.finish_reason, "stop");
  EXPECT_EQ(reply.completion_tokens, 3);
  EXPECT_EQ(reply.gaps_ms.size(), 1U);
}

TEST(StreamChat, NegativeAStreamThatEndsWithAnErrorHasFailed) {
  // Bug: its status was that of its head, so a failure counted as a fast answer.
  OneStream service(std::string(kText) + "data: {\"error\":{\"message\":\"out of memory\"}}\n\n");
  EXPECT_EQ(stream_chat(service.endpoint(), {.prompt = "hello"}).status, 0);
}

}  // namespace
}  // namespace slip::bench
