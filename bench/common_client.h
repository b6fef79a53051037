// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// One streamed chat completion as seen by its client; times in milliseconds.
struct ChatReply {
  int status = 0;  // 0: no connection, or cut off midway
  std::string text;
  std::string finish_reason;
  double ttft_ms = 0, e2e_ms = 0;
  std::vector<double> gaps_ms;  // between chunks with text
  std::int64_t completion_tokens = 0;
  std::int64_t steps = 0, proposed = 0, accepted = 0, first_rejections = 0;
  std::uint64_t draft_version = 0;
};

// Sends one chat completion and blocks; each call opens its own connection. Any thread.
ChatReply stream_chat(const Endpoint& endpoint, const ChatCall& call);
// Sends a GET and returns the body; empty unless the status is 200.
std::string get(const Endpoint& endpoint, const std::string& path);

}  // namespace slip::bench
