// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "engine/request.h"

namespace slip {

// What the log says about one HTTP request once it is over. Never prompt, answer, key or path: names that we gave and
// numbers only, besides the checked request id.
struct RequestLog {
  std::string id, method, route;
  int status = 0;                         // 499: the client left before it was answered
  std::string key, answer, topic, draft;  // empty ones are left out
  bool client_gone = false;
  std::int64_t begun_us = 0;  // monotonic
  // Sums over the answer's parts.
  int n_finished = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  double ttft_ms = 0, tpot_ms = 0;

  void add(const RequestSummary& summary);
};

// "request 0006… POST /v1/completions 200 total_ms=12.3 …"
std::string request_line(const RequestLog& log, std::int64_t now_us);
// Probes and scrapes that went well would drown the rest.
bool is_routine(const RequestLog& log);

}  // namespace slip
