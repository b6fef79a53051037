// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/file.h"

namespace slip::cli {

// The server side of <data>/control.sock, over which other commands of this program send the running service one line
// and get one line back. Only our user and root are served: by the modes of directory and socket, and by the peer's
// credentials. A peer without a complete line after kPeerPatience is dropped, and no other peer waits for it. Threads:
// the handler runs on the socket's own thread, one request at a time.
class ControlSocket {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10;  // of one line
  static constexpr std::size_t kMostPeers = 32;  // waiting for a line; beyond that the oldest is dropped
  static constexpr std::chrono::seconds kPeerPatience{5};
  // Gets a line and returns the answer, both without the line end. Must not throw.
  using Handler = std::function<std::string(const std::string& line)>;

  // Listens, after it removed a socket that a crash left. REQUIRES: this process has locked the data directory.
  // Error{kIo}.
  ControlSocket(const std::filesystem::path& data_directory, Handler handler);
  ~ControlSocket();  // finishes the request in the handler, removes the socket
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  struct Peer {
    FileHandle socket;
    std::string line;           // received so far
    std::int64_t until_us = 0;  // monotonic
  };

  void run();
  void serve(std::vector<Peer>& peers) const;
  void take_peer(std::vector<Peer>& peers) const;
  void await_descriptor() const;
  bool awaits_more(Peer& peer) const;

  FileHandle directory_, listening_, stop_;
  Handler handler_;
  std::thread thread_;
};

// The time that a client gives a service for one answer. A purge has to rewrite the segments that it touches.
inline constexpr std::chrono::milliseconds kAnswerPatience{60'000};

// The client side: sends `line` to the service of a data directory and waits for its answer. Error{kUnavailable}: no
// service listens, or none answers within `patience`; it may then carry out the line later. Error{kIo}: the directory
// cannot be opened, or the service ended the connection before it answered.
std::string ask_service(const std::filesystem::path& data_directory, const std::string& line,
                        std::chrono::milliseconds patience = kAnswerPatience);

}  // namespace slip::cli
