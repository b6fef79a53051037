// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/common/patience.h"

namespace slip {

struct RawReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // decoded if chunked
};

// A client that sends arbitrary bytes over a socket, as a careless or hostile one does.
class RawClient {
 public:
  static constexpr int kReceiveSeconds = 10 * testing::kPatience;

  // Calls `before_connecting` once the socket exists.
  explicit RawClient(
      std::uint16_t port, int receive_buffer = 0, const std::function<void()>& before_connecting = [] {}) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{kReceiveSeconds, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    before_connecting();
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }
  // False at the end of the connection or after kReceiveSeconds.
  bool receive() {
    char buffer[65536];
    const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0) pending_.append(buffer, static_cast<std::size_t>(n));
    timed_out_ = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    return n > 0;
  }
  void receive_now() {  // reads the bytes that have arrived so far
    char buffer[65536];
    const auto n = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) pending_.append(buffer, static_cast<std::size_t>(n));
  }
  bool read_until(const std::string& mark) {
    while (pending_.find(mark) == std::string::npos) {
      if (!receive()) return false;
    }
    return true;
  }
  std::string read_to_end() {
    while (receive()) {
    }
    return pending_;
  }

  RawReply read_reply() {
    if (!read_until("\r\n\r\n")) throw std::runtime_error("no answer: '" + pending_ + "'");
    RawReply reply = parse_head(pending_.substr(0, pending_.find("\r\n\r\n")));
    pending_.erase(0, pending_.find("\r\n\r\n") + 4);
    if (reply.status == 204) return reply;  // never has a body, and the connection stays open
    if (reply.headers.contains("transfer-encoding")) {
      while (read_chunk(reply.body)) {
      }
    } else if (reply.headers.contains("content-length")) {
      const std::size_t size = std::stoul(reply.headers["content-length"]);
      while (pending_.size() < size && receive()) {
      }
      reply.body = pending_.substr(0, size);
      pending_.erase(0, size);
    } else {
      reply.body = read_to_end();
    }
    return reply;
  }
  void end_sending() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {  // as a killed client does
    const linger at_once{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  const std::string& pending() const { return pending_; }
  bool timed_out() const { return timed_out_; }  // at the last receive()

 private:
  static RawReply parse_head(const std::string& head) {
    RawReply reply;
    reply.status = std::atoi(head.substr(9, 3).c_str());
    for (std::size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at + 2)) {
      const std::string line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
      const auto colon = line.find(": ");
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (colon != std::string::npos) reply.headers[name] = line.substr(colon + 2);
    }
    return reply;
  }
  bool read_chunk(std::string& body) {
    if (!read_until("\r\n")) throw std::runtime_error("a chunk is missing");
    const auto line = pending_.find("\r\n");
    const std::size_t size = std::stoul(pending_.substr(0, line), nullptr, 16);
    while (pending_.size() < line + 2 + size + 2) {
      if (!receive()) throw std::runtime_error("a chunk is cut");
    }
    body += pending_.substr(line + 2, size);
    pending_.erase(0, line + 2 + size + 2);
    return size > 0;
  }

  int fd_ = -1;
  std::string pending_;
  bool timed_out_ = false;
};

}  // namespace slip
