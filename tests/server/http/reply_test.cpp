// SPDX-License-Identifier: Apache-2.0
#include "server/http/reply.h"

#include <gtest/gtest.h>

#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace slip {
namespace {

using nlohmann::json;

TEST(Reply, ErrorsHaveOneShape) {
  const Error error(ErrorCode::kInvalidArgument, "bad", "do better", "temperature");
  const auto body = json::parse(error_reply(error, 1).body)["error"];
  EXPECT_EQ(body["message"], "bad; do better");
  EXPECT_EQ(body["type"], "invalid_request_error");
  EXPECT_EQ(body["param"], "temperature");
  EXPECT_TRUE(body["code"].is_null());
  EXPECT_EQ(body.size(), 4U);
}

TEST(Reply, CodesMapToStatusesOnce) {
  const std::pair<ErrorCode, int> cases[] = {{ErrorCode::kInvalidArgument, 400}, {ErrorCode::kUnsupported, 400},
                                             {ErrorCode::kNotFound, 404},        {ErrorCode::kUnauthenticated, 401},
                                             {ErrorCode::kPermission, 403},      {ErrorCode::kTooLarge, 400},
                                             {ErrorCode::kOverloaded, 429},      {ErrorCode::kUnavailable, 503},
                                             {ErrorCode::kUnattainable, 503},    {ErrorCode::kIo, 500},
                                             {ErrorCode::kDataLoss, 500},        {ErrorCode::kInternal, 500}};
  for (const auto& [code, status] : cases) {
    const Reply reply = error_reply(Error(code, "x"), 3);
    EXPECT_EQ(reply.status, status);
    const bool says_when = status == 429 || status == 503;
    EXPECT_EQ(reply.headers.size(), says_when ? 1U : 0U);
    if (!says_when) continue;
    EXPECT_EQ(reply.headers[0], (std::pair<std::string, std::string>("Retry-After", "3")));
  }
}

// What a failure of ours says may name files, so the client does not see it.
TEST(Reply, FailuresAreAnsweredByTheirKind) {
  const auto reply_to = [](const auto& thrown) {
    try {
      throw thrown;
    } catch (...) {
      return failure_reply(3);
    }
  };
  EXPECT_EQ(reply_to(Error(ErrorCode::kNotFound, "x")).status, 404);
  EXPECT_EQ(reply_to(std::bad_alloc()).body, exhausted_reply(3).body);
  const Reply unknown = reply_to(std::runtime_error("/a/file"));
  EXPECT_EQ(unknown.status, 500);
  EXPECT_EQ(unknown.body.find("/a/file"), std::string::npos);
}

TEST(Reply, DateIsRfc9110) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

}  // namespace
}  // namespace slip
