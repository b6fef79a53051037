// SPDX-License-Identifier: Apache-2.0
#include "bench/common/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "common/clock.h"
#include "common/error.h"

namespace slip::bench {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = boost::asio::ip::tcp;
using nlohmann::json;

double ms_since(std::int64_t start_us) {
  return static_cast<double>(monotonic_us() - start_us) / 1000.0;
}

// Collects `data:` events from a byte stream with arbitrary chunk borders.
class EventReader {
 public:
  explicit EventReader(ChatReply& reply, std::int64_t start_us) : reply_(reply), start_us_(start_us) {}

  void feed(std::string_view bytes) {
    pending_ += bytes;
    for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (line.starts_with("data: {")) take(json::parse(line.substr(6), nullptr, false));
    }
  }
  // Whether an event held an error: a failure after the stream's head is reported there.
  bool has_failed() const { return has_failed_; }

 private:
  void take(const json& event) {
    if (event.is_discarded()) return;
    has_failed_ = has_failed_ || event.contains("error");
    for (const auto& choice : event.value("choices", json::array())) {
      const auto delta = choice.value("delta", json::object());
      if (delta.contains("content") && delta["content"].is_string()) add_text(delta["content"]);
      if (choice.contains("finish_reason") && choice["finish_reason"].is_string())
        reply_.finish_reason = choice["finish_reason"];
    }
    if (event.contains("usage") && event["usage"].is_object()) {
      reply_.completion_tokens = event["usage"].value("completion_tokens", 0);
    }
    if (event.contains("metrics")) add_figures(event["metrics"].value("speculative_decoding", json::object()));
  }

  void add_text(const std::string& text) {
    if (text.empty()) return;
    const double now = ms_since(start_us_);
    if (reply_.text.empty()) {
      reply_.ttft_ms = now;
    } else {
      reply_.gaps_ms.push_back(now - last_ms_);
    }
    last_ms_ = now;
    reply_.text += text;
  }

  void add_figures(const json& figures) {
    reply_.steps = figures.value("num_spec_steps", std::int64_t{0});
    reply_.proposed = figures.value("num_draft_tokens", std::int64_t{0});
    reply_.accepted = figures.value("num_accepted_draft_tokens", std::int64_t{0});
    reply_.first_rejections = figures.value("num_first_rejections", std::int64_t{0});
    reply_.accepted_siblings = figures.value("num_accepted_siblings", std::int64_t{0});
    if (figures.contains("draft_version") && figures["draft_version"].is_number()) {
      reply_.draft_version = figures["draft_version"];
    }
  }

  ChatReply& reply_;
  std::int64_t start_us_;
  double last_ms_ = 0;
  bool has_failed_ = false;
  std::string pending_;
};

beast::tcp_stream connect(boost::asio::io_context& io, const Endpoint& endpoint) {
  beast::tcp_stream stream(io);
  stream.connect(tcp::resolver(io).resolve(endpoint.host, endpoint.port));
  return stream;
}

http::request<http::string_body> chat_request(const Endpoint& endpoint, const ChatCall& call) {
  json body = {{"messages", json::array({{{"role", "user"}, {"content", call.prompt}}})},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"temperature", call.temperature},
               {"max_tokens", call.max_tokens}};
  if (!call.topic.empty()) body["metadata"] = {{"topic", call.topic}};
  http::request<http::string_body> request{http::verb::post, "/v1/chat/completions", 11};
  request.set(http::field::host, endpoint.host + ":" + endpoint.port);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  request.body() = body.dump();
  request.prepare_payload();
  return request;
}

}  // namespace

Endpoint parse_url(const std::string& url) {
  const std::string scheme = "http://";
  const auto colon = url.rfind(':');
  if (!url.starts_with(scheme) || colon <= scheme.size()) {
    throw Error(ErrorCode::kInvalidArgument, "--url " + url + " is not of the form http://HOST:PORT", {}, "url");
  }
  std::string port = url.substr(colon + 1);
  if (const auto slash = port.find('/'); slash != std::string::npos) port.resize(slash);
  return {url.substr(scheme.size(), colon - scheme.size()), port};
}

ChatReply stream_chat(const Endpoint& endpoint, const ChatCall& call) {
  ChatReply reply;
  const auto start_us = monotonic_us();
  boost::asio::io_context io;
  try {
    auto stream = connect(io, endpoint);
    http::write(stream, chat_request(endpoint, call));
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::uint64_t{64} << 20);
    http::read_header(stream, buffer, parser);
    EventReader events(reply, start_us);
    std::size_t taken = 0;
    while (!parser.is_done()) {
      http::read_some(stream, buffer, parser);
      const std::string& body = parser.get().body();
      events.feed(std::string_view(body).substr(taken));
      taken = body.size();
    }
    reply.status = events.has_failed() ? 0 : static_cast<int>(parser.get().result_int());
  } catch (const boost::system::system_error&) {
    reply.status = 0;
  }
  reply.e2e_ms = ms_since(start_us);
  return reply;
}

std::string get(const Endpoint& endpoint, const std::string& path) {
  boost::asio::io_context io;
  try {
    auto stream = connect(io, endpoint);
    http::request<http::empty_body> request{http::verb::get, path, 11};
    request.set(http::field::host, endpoint.host + ":" + endpoint.port);
    request.set(http::field::connection, "close");
    http::write(stream, request);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(stream, buffer, response);
    return response.result() == http::status::ok ? response.body() : std::string();
  } catch (const boost::system::system_error&) {
    return {};
  }
}

}  // namespace slip::bench
