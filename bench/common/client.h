// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cli/simulation/load_figures.h"

namespace slip::bench {

struct Endpoint {
  std::string host, port;
};
Endpoint parse_url(const std::string& url);  // "http://127.0.0.1:8080"; Error{kInvalidArgument}

struct ChatCall {
  std::string prompt;
  std::string topic;
  double temperature = 0;
  int max_tokens = 128;
};

// One streamed chat completion as seen by its client.
struct ChatReply : ReplyFigures {
  std::string text;
  std::uint64_t draft_version = 0;
};

// Sends one chat completion and blocks; each call opens its own connection. Any thread.
ChatReply stream_chat(const Endpoint& endpoint, const ChatCall& call);
// Sends a GET and returns the body; empty unless the status is 200.
std::string get(const Endpoint& endpoint, const std::string& path);

}  // namespace slip::bench
