// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/common/client.h"

namespace slip::bench {

// A `slipstream serve` child process on a free port. The destructor stops it with SIGTERM.
class Service {
 public:
  // `arguments` follow `serve`; `--port 0` is added. Throws Error{kUnavailable} with the end of its log if it does not
  // become ready.
  Service(const std::filesystem::path& program, std::vector<std::string> arguments, std::filesystem::path log);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  int stop();  // sends SIGTERM, waits; returns the exit status

 private:
  void await_ready();

  int pid_ = -1;
  std::filesystem::path log_;
  Endpoint endpoint_;
};

// The `slipstream` program built beside this benchmark (…/bench/NAME → …/slipstream).
std::filesystem::path slipstream_beside();

}  // namespace slip::bench
