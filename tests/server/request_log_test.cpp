// SPDX-License-Identifier: Apache-2.0
#include "server/request_log.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

RequestSummary part(std::int64_t first_us, int output_tokens) {
  RequestSummary summary;
  summary.figures.prompt_tokens = 7;
  summary.figures.output_tokens = output_tokens;
  summary.figures.submitted_us = 1000;
  summary.figures.first_token_us = first_us;
  summary.figures.finished_us = first_us + 1000 * (output_tokens - 1);
  return summary;
}

TEST(RequestLog, IsOneLineOfNamesAndNumbers) {
  RequestLog log;
  log.id = "0006";
  log.method = "POST";
  log.route = "/v1/completions";
  log.status = 200;
  log.key = "team-a";
  log.answer = "cmpl-1";
  log.topic = "sql";
  log.begun_us = 500;
  log.add(part(6000, 3));
  EXPECT_EQ(request_line(log, 10'500),
            "request 0006 POST /v1/completions 200 total_ms=10.0 key=team-a answer=cmpl-1 topic=sql prompt_tokens=7 "
            "output_tokens=3 ttft_ms=5.0 tpot_ms=1.0");
  log.add(part(4000, 5));
  log.client_gone = true;
  const std::string both = request_line(log, 10'500);
  EXPECT_NE(both.find("prompt_tokens=7 output_tokens=8 ttft_ms=3.0"), std::string::npos) << both;
  EXPECT_TRUE(both.ends_with(" client_gone"));
}

TEST(RequestLog, ProbesThatGoWellAreRoutine) {
  RequestLog log;
  log.status = 200;
  for (const char* route : {"/healthz", "/readyz", "/health", "/ping", "/metrics"}) {
    log.route = route;
    EXPECT_TRUE(is_routine(log)) << route;
  }
  log.status = 401;
  EXPECT_FALSE(is_routine(log));
  log.status = 200;
  log.route = "/v1/models";
  EXPECT_FALSE(is_routine(log));
}

}  // namespace
}  // namespace slip
