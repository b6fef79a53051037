// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "common/file.h"

namespace slip::cli {

// <data>/control.sock, by which commands of this program ask the service that holds the data directory: one line in,
// one line out. The directory's mode keeps others away, and a peer of another user than ours or root is turned away
// too. Threads: the handler runs on the socket's own, one question at a time.
class ControlSocket {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10;      // of a line
  using Handler = std::function<std::string(const std::string& line)>;  // throws nothing

  // REQUIRES: the data directory is locked. Error{kIo}.
  ControlSocket(const std::filesystem::path& data_directory, Handler handler);
  ~ControlSocket();  // answers what was asked, removes the socket
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  void run();
  void answer(int peer) const;

  FileHandle directory_, listening_, stop_;
  Handler handler_;
  std::thread thread_;
};

// What the service of a data directory answers to `line`. Waits as long as it takes. Error{kUnavailable}: nobody
// listens there; Error{kIo}: it ended before it answered.
std::string ask_service(const std::filesystem::path& data_directory, const std::string& line);

}  // namespace slip::cli
