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

// <data>/control.sock, by which commands of this program ask the service that holds the data directory: one line in,
// one line out. The directory's mode keeps others away, and a peer of another user than ours or root is turned away
// too. A peer that has sent no whole line after kPeerPatience is dropped, and the others do not wait for it. Threads:
// the handler runs on the socket's own, one question at a time.
class ControlSocket {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10;  // of a line
  static constexpr std::size_t kMostPeers = 32;                     // whose line is awaited; more drop the oldest
  static constexpr std::chrono::seconds kPeerPatience{5};
  using Handler = std::function<std::string(const std::string& line)>;  // throws nothing

  // REQUIRES: the data directory is locked. Error{kIo}.
  ControlSocket(const std::filesystem::path& data_directory, Handler handler);
  ~ControlSocket();  // answers what was asked, removes the socket
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  struct Peer {
    FileHandle socket;
    std::string line;           // so far
    std::int64_t until_us = 0;  // monotonic
  };

  void run();
  void serve(std::vector<Peer>& peers) const;
  void take_peer(std::vector<Peer>& peers) const;
  bool awaits_more(Peer& peer) const;

  FileHandle directory_, listening_, stop_;
  Handler handler_;
  std::thread thread_;
};

// What the service of a data directory answers to `line`. Waits as long as it takes. Error{kUnavailable}: nobody
// listens there; Error{kIo}: it ended before it answered.
std::string ask_service(const std::filesystem::path& data_directory, const std::string& line);

}  // namespace slip::cli
