// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "engine/request.h"

namespace slip {

// The log record of one finished HTTP request: names that we assigned, numbers, and the checked request id. Never
// prompt, answer, key or path.
struct RequestLog {
  std::string id, method, route;
  int status = 0;                         // 499: the client left before it was answered
  std::string key, answer, topic, draft;  // empty ones are omitted
  bool client_gone = false;
  std::int64_t begun_us = 0;  // monotonic
  // Sums over the answer's parts.
  int n_finished = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  double ttft_ms = 0, tpot_ms = 0;

  void add(const RequestSummary& summary);
};

// The log line: "request 0006… POST /v1/completions 200 total_ms=12.3 …"
std::string request_line(const RequestLog& log, std::int64_t now_us);
// A successful probe or scrape, logged at debug level so that it does not hide other lines.
bool is_routine(const RequestLog& log);

}  // namespace slip
